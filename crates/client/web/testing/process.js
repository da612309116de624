/** A server that welcomes each socket, and clients in processes of Node.js. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const FILE = fileURLToPath(new URL('node_client.mjs', import.meta.url));
const TARGET = resolve(fileURLToPath(new URL('../../../..', import.meta.url)), process.env.CARGO_TARGET_DIR ?? 'target');
/** Path of the package `ws`, which `.ci/package` installs. */
export const WS = resolve(TARGET, 'package/web/node_modules/ws');
const WELCOME = {
  type: 'welcome', client_id: 'node', resume: 'r', resumed: true, heartbeat_ms: 25_000, max_message_bytes: 65_536, ice_servers: [],
};

/** Starts a server that answers upgrades with `welcome`, or 404. Returns its address and `stop`. */
export async function serve(isMesh, port = 0) {
  const server = createServer((_, answer) => answer.writeHead(404).end());
  const sockets = new Set();
  server.on('connection', (socket) => sockets.add(socket));
  if (isMesh) server.on('upgrade', accept);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: server.address().port, stop };
}

function accept({ headers }, socket) {
  const key = createHash('sha1').update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
  const head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
  head.push(`Sec-WebSocket-Accept: ${key.digest('base64')}`, 'Sec-WebSocket-Protocol: signaling.v1', '', '');
  socket.on('error', () => {});
  socket.write(head.join('\r\n'));
  const text = Buffer.from(JSON.stringify(WELCOME));
  socket.write(Buffer.concat([Buffer.from([0x81, 126, text.length >> 8, text.length & 255]), text]));
  // The close frame of a client is short and masked.
  socket.on('data', (data) => data[0] === 0x88 && socket.end(Buffer.from([0x88, 2, 0x03, 0xe8])));
}

/** Runs the client. Calls `heard` with each line. Returns its lines and exit code. */
export async function run(type, scenario, urls, heard = () => {}) {
  const flag = process.version.startsWith('v20.') ? ['--experimental-websocket', '--no-warnings'] : [];
  const child = spawn(process.execPath, [...flag, FILE, scenario, type === 'ws' ? WS : type, ...urls], { stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  createInterface(child.stdout).on('line', (line) => {
    lines.push(line);
    heard(line);
  });
  let complaints = '';
  child.stderr.on('data', (data) => (complaints += data));
  const [code] = await once(child, 'close');
  assert.equal(code, 0, complaints + lines.join('\n'));
  assert.equal(complaints, '');
  return lines;
}
