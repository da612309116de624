/** Opens a collection of rxdb. `dialect_clients.rs` loads it. */
async ({ name, address, room: topic }) => {
  // The handler fails without it.
  window.process = { nextTick: (callback, ...given) => queueMicrotask(() => callback(...given)) };
  const storage = upstream.getRxStorageMemory();
  const database = await upstream.createRxDatabase({ name, storage, multiInstance: false });
  const properties = { name: { type: 'string', maxLength: 100 } };
  const schema = { version: 0, primaryKey: 'name', type: 'object', properties };
  const { collection } = await database.addCollections({ collection: { schema } });
  await collection.insert({ name });
  await new Promise((resolve) => collection.find().$.subscribe((all) => {
    window.names = () => all.map((document) => document.name).sort().join();
    resolve();
  }));
  const connectionHandlerCreator = upstream.getConnectionHandlerSimplePeer({
    signalingServerUrl: `ws://${address}/rxdb`,
    config: { iceServers: [] },
    webSocketConstructor: function (url) { return (window.socket = new WebSocket(url)); },
  });
  const options = { collection, topic, connectionHandlerCreator, pull: {}, push: {} };
  await upstream.replicateWebRTC(options);
}
