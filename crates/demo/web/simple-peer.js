/** The script simplepeer.min.js as a module, for y-webrtc. */

export default globalThis.SimplePeer;
