/** Exports upstream's clients. `upstream.rs` bundles them for the tests `dialect_*clients.rs`. */

export { Config, PixelStreaming } from '@epicgames-ps/lib-pixelstreamingfrontend-ue5.7';
export { default as GstWebRTCAPI } from 'gstwebrtc-api';
export { Peer } from 'peerjs';
export { createRxDatabase } from 'rxdb/plugins/core';
export { getConnectionHandlerSimplePeer, replicateWebRTC } from 'rxdb/plugins/replication-webrtc';
export { getRxStorageMemory } from 'rxdb/plugins/storage-memory';
export { WebrtcProvider } from 'y-webrtc';
export { Doc } from 'yjs';
