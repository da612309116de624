/** Negotiations of two sides without WebRTC, in random runs. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { randomOf, World } from '../testing/negotiation.js';

const RUNS = 5_000;
const MAX_PER_RELOAD = 3;

test('sides connect after reloads while signals are held', () => {
  let [total, reloads] = [0, 0];
  for (let seed = 0; seed < RUNS; seed += 1) {
    const world = new World(seed);
    const count = plan(world, seed, { reload: true });
    assert.equal(world.fault(), null, `seed ${seed}`);
    const made = world.connections - 2;
    assert.ok(made <= MAX_PER_RELOAD * count, `seed ${seed}: ${made} connections by ${count} reloads`);
    total += made;
    reloads += count;
  }
  assert.ok(total <= 2.6 * reloads, `${total} connections by ${reloads} reloads`);
});

test('changes of both sides arrive when they cross', () => {
  for (let seed = 0; seed < RUNS; seed += 1) {
    const world = new World(seed);
    plan(world, seed, { change: true });
    assert.equal(world.fault(), null, `seed ${seed}`);
    assert.equal(world.connections, 2, `seed ${seed}`);
  }
});

test('sides connect after reloads, changes and new connections', () => {
  for (let seed = 0; seed < RUNS; seed += 1) {
    const world = new World(seed);
    plan(world, seed, { reload: true, change: true, startOver: true });
    assert.equal(world.fault(), null, `seed ${seed}`);
  }
});

test('sides connect after refused signals, reloads and changes', () => {
  for (let seed = 0; seed < RUNS; seed += 1) {
    const world = new World(seed);
    plan(world, seed, { reload: true, change: true, refuse: true });
    assert.equal(world.fault(), null, `seed ${seed}`);
  }
});

test('first connection needs one offer and at most one question', () => {
  for (let seed = 0; seed < RUNS; seed += 1) {
    const world = new World(seed);
    assert.equal(world.fault(), null);
    // The first offer, its wish, a question, and the answer.
    assert.ok(world.sent <= 4, `seed ${seed}: ${world.sent}`);
  }
});

/** Plans 1 to 4 reloads and up to 12 other events. Returns the number of reloads. */
function plan(world, seed, { reload, change, startOver, refuse }) {
  const random = randomOf(seed + 1_000_000);
  const upTo = (count) => Math.floor(random() * (count + 1));
  const at = (act) => {
    const client = world.clients[upTo(1)];
    world.clock.after(random() * 400, () => act(client));
  };
  for (let holds = upTo(3); holds > 0; holds -= 1) at((client) => world.hold(client, random() * 200));
  const reloads = reload ? 1 + upTo(3) : 0;
  for (let count = 0; count < reloads; count += 1) at((client) => world.reload(client));
  for (let changes = change ? upTo(12) : 0; changes > 0; changes -= 1) at(({ page }) => page.change());
  for (let times = startOver ? upTo(3) : 0; times > 0; times -= 1) at(({ page }) => page.startOver());
  const refusals = refuse ? 1 + upTo(2) : 0;
  for (let count = 0; count < refusals; count += 1) at((client) => world.refuse(client, random() * 300));
  return reloads;
}
