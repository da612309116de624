/** Opens a streamer of Pixel Streaming. `dialect_media_clients.rs` loads it. */
({ address, id, text }) => {
  const socket = new WebSocket(`ws://${address}/pixelstreaming/streamer`);
  const peers = new Map();
  const send = (message) => socket.send(JSON.stringify(message));
  const handlers = {
    identify: () => send({ type: 'endpointId', id }),
    endpointIdConfirm: ({ committedId }) => { window.committedId = committedId; },
    playerConnected: async ({ playerId }) => {
      const peer = new RTCPeerConnection();
      peers.set(playerId, peer);
      peer.onicecandidate = ({ candidate }) =>
        candidate && send({ type: 'iceCandidate', playerId, candidate });
      const channel = peer.createDataChannel('datachannel');
      // Message 1 is a response: a text in UTF-16.
      const response = [1, ...[...text].flatMap((character) => [character.charCodeAt(0), 0])];
      channel.onopen = () => channel.send(new Uint8Array(response));
      await peer.setLocalDescription();
      send({ type: 'offer', playerId, sdp: peer.localDescription.sdp });
    },
    answer: ({ playerId, sdp }) =>
      peers.get(playerId).setRemoteDescription({ type: 'answer', sdp }),
    iceCandidate: ({ playerId, candidate }) => peers.get(playerId).addIceCandidate(candidate),
    playerDisconnected: ({ playerId }) => {
      peers.get(playerId).close();
      peers.delete(playerId);
    },
  };
  window.playerCount = () => peers.size;
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    handlers[message.type]?.(message);
  };
}
