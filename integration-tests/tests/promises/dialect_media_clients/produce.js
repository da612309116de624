/** Offers a stream by GStreamer. `dialect_media_clients.rs` loads it. */
(() => {
  const canvas = document.createElement('canvas');
  canvas.getContext('2d').fillRect(0, 0, 1, 1);
  window.session = api.createProducerSession(canvas.captureStream());
  window.consumers = 0;
  session.addEventListener('clientConsumerAdded', () => { consumers += 1; });
  session.addEventListener('clientConsumerRemoved', () => { consumers -= 1; });
  session.start();
})();
