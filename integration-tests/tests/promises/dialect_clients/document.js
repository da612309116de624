/** Opens a document of y-webrtc. `dialect_clients.rs` loads it. */
({ name, address, room, password }) => {
  const names = new upstream.Doc().getMap();
  const signaling = [`ws://${address}/y-webrtc`];
  const peerOpts = { config: { iceServers: [] } };
  const options = { signaling, password, filterBcConns: false, peerOpts };
  window.provider = new upstream.WebrtcProvider(room, names.doc, options);
  window.names = () => [...names.keys()].sort().join();
  names.set(name, true);
}
