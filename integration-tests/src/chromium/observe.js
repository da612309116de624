/** Counts ended channels and keeps messages. `page.rs` loads it for all tests with a browser. */

window.endedChannels = 0;
const make = RTCPeerConnection.prototype.createDataChannel;
RTCPeerConnection.prototype.createDataChannel = function (...given) {
  const channel = make.apply(this, given);
  channel.addEventListener('close', () => { window.endedChannels += 1; });
  return channel;
};
window.receivedMessages = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener('message', ({ data }) => window.receivedMessages.push(JSON.parse(data)));
  }
};
