/** The client on the WebSockets of Node.js, whose refused attempts fire events of their own. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createServer as createTcpServer } from 'node:net';
import { once } from 'node:events';
import test from 'node:test';

import { run, serve, WS } from './testing/process.js';

/** Time limit of a test. */
const timeout = 30_000;
/** A port without a listener. */
const DEAD = 'ws://127.0.0.1:1';

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
