/** Opens a player of Pixel Streaming. `dialect_media_clients.rs` loads it. */
({ address, id }) => {
  const ss = `ws://${address}/pixelstreaming/player`;
  const initialSettings = { ss, AutoConnect: true, StreamerId: id, MaxReconnectAttempts: 100 };
  const config = new upstream.Config({ initialSettings });
  const player = new upstream.PixelStreaming(config, { videoElementParent: document.body });
  window.texts = [];
  player.addResponseEventListener('text', (text) => texts.push(text));
}
