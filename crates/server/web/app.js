/** The page: sends one request per second to its own server and shows the answers. */

import { History } from './history.js';
import { Mesh } from './mesh.js';
import { Poll } from './poll.js';
import { lines } from './status.js';
import { LENGTH, announceEvents, onToken } from './view.js';
import { show, showPoll } from './view.js';

/** Time between requests, in milliseconds. */
const INTERVAL_MS = 1_000;
/** Time between the first two requests: rates need two answers. */
const FIRST_INTERVAL_MS = 400;
/** Minimum time between an answer and the next request. */
const MIN_PAUSE_MS = 100;

const history = new History(LENGTH);
const mesh = new Mesh();
// The page shows each event within 2 s, also while a server hangs.
const poll = new Poll('/admin/nodes');

poll.addEventListener('answer', ({ detail }) => {
  const snapshot = mesh.update(Date.now(), detail);
  history.add(lines(snapshot));
  show(snapshot, history);
});
poll.addEventListener('answer', () => setTimeout(announceEvents, INTERVAL_MS), { once: true });
poll.addEventListener('state', () => showPoll(poll));
onToken((token) => poll.useToken(token));
setInterval(() => poll.tick(), INTERVAL_MS);
showPoll(poll);

for (let interval = FIRST_INTERVAL_MS; ; interval = INTERVAL_MS) {
  const began = performance.now();
  await poll.request();
  const pause = Math.max(MIN_PAUSE_MS, began + interval - performance.now());
  await new Promise((resolve) => setTimeout(resolve, pause));
}
