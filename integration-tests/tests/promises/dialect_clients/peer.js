/** Opens a peer of PeerJS that echoes data. `dialect_clients.rs` loads it. */
({ id, address, key, path = '/peerjs/' }) => {
  const [host, port] = address.split(':');
  const note = (event) => events.push(event);
  window.events = [];
  const config = { iceServers: [] };
  window.peer = new upstream.Peer(id, { host, port, path, key, config });
  peer.on('open', note);
  peer.on('disconnected', () => note('disconnected'));
  peer.on('error', ({ type }) => note(type));
  peer.on('connection', (connection) => connection.on('data', (data) => connection.send(data)));
  window.call = (other) => {
    const connection = peer.connect(other);
    connection.on('open', () => connection.send(`hello ${other}`));
    connection.on('data', note);
  };
}
