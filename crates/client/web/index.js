/** Client of the signaling mesh. README.md is the guide. */

export { Call } from './call.js';
export { Client } from './client.js';
export { MeshError } from './core/mesh_error.js';
export { PeerConnection } from './peer.js';
export { randomId } from './random_id.js';
export { Room } from './room.js';
