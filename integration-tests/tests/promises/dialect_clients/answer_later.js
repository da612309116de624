/** Delays answers of PeerJS calls until `answer()`. `dialect_clients.rs` loads it. */
(() => {
  const createAnswer = RTCPeerConnection.prototype.createAnswer;
  const allowed = new Promise((resolve) => { window.answer = resolve; });
  RTCPeerConnection.prototype.createAnswer = async function (...given) {
    window.isCalled = true;
    await allowed;
    return createAnswer.apply(this, given);
  };
})();
