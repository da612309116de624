/** Opens a client of GStreamer. `dialect_media_clients.rs` loads it. */
({ address, name }) => {
  window.api = new upstream.GstWebRTCAPI({
    signalingServerUrl: `ws://${address}/gstreamer/cams`,
    meta: { name },
    webrtcConfig: { iceServers: [] },
  });
  window.isReady = false;
  api.registerConnectionListener({ connected: () => { isReady = true; }, disconnected: () => {} });
  window.producers = () => api.getAvailableProducers().map(({ meta }) => meta.name).join();
}
