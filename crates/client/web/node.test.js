/** The client on the WebSockets of Node.js, whose refused attempts fire events of their own. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { resolve } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const FILE = fileURLToPath(new URL('testing/node_client.mjs', import.meta.url));
const TARGET = resolve(fileURLToPath(new URL('../../..', import.meta.url)), process.env.CARGO_TARGET_DIR ?? 'target');
const WS = resolve(TARGET, 'package/web/node_modules/ws');
/** Time limit of a test. */
const timeout = 30_000;
/** A port without a listener. */
const DEAD = 'ws://127.0.0.1:1';
const WELCOME = {
  type: 'welcome', client_id: 'node', resume: 'r', resumed: true, heartbeat_ms: 25_000, max_message_bytes: 65_536, ice_servers: [],
};

/** Starts a server that answers upgrades with `welcome`, or 404. Returns its address and `stop`. */
async function serve(isMesh, port = 0) {
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
async function run(type, scenario, urls, heard = () => {}) {
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

const timeOf = (line) => Number(line.split(' ')[1]);

for (const type of ['global', 'ws']) {
  const isMissing = type === 'ws' && !existsSync(WS) && process.env.CI !== 'true';
  const options = { timeout, skip: isMissing && 'make package installs ws' };

  test(`client passes a dead first address (${type})`, options, async () => {
    const mesh = await serve(true);
    const lines = await run(type, 'connect', [DEAD, `ws://127.0.0.1:${mesh.port}`]);
    mesh.stop();
    const connected = lines.find((line) => line.startsWith('connected'));
    assert.ok(timeOf(connected) < 1_500, lines.join('\n'));
    assert.match(lines[1], type === 'ws' ? /\d connect ECONNREFUSED 127\.0\.0\.1:1 \(1006\)/ : /network error|failed/);
  });

  test(`client returns after an outage (${type})`, options, async () => {
    const first = await serve(true);
    let [second, back] = [null, 0];
    const lines = await run(type, 'outage', [`ws://127.0.0.1:${first.port}`], async (line) => {
      if (!line.startsWith('connected') || second) return;
      first.stop();
      second = {};
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      second = await serve(true, first.port);
      back = performance.now();
    });
    assert.ok(performance.now() - back < 6_500, lines.join('\n'));
    second.stop();
  });

  test(`client without a server rejects with the reason (${type})`, options, async () => {
    const wrong = await serve(false);
    for (const url of [DEAD, `ws://127.0.0.1:${wrong.port}/v2/connect`]) {
      const lines = await run(type, 'connect', [url]);
      const rejected = lines.find((line) => line.startsWith('rejected'));
      assert.match(rejected, /^rejected 1[56]\d\d expired not connected in time: .*check host, port and path$/);
    }
    wrong.stop();
  });

  test(`process ends when its client closes early (${type})`, options, async () => {
    const silent = createTcpServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const lines = await run(type, 'close', [`ws://127.0.0.1:${silent.address().port}`]);
    silent.close();
    assert.deepEqual(lines.slice(-1), ['closed']);
  });
}
