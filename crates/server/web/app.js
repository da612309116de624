/** The page: one request a second to its own server, and what the answers show. */

import { History } from './history.js';
import { Mesh } from './mesh.js';
import { Poll } from './poll.js';
import { lines } from './reading.js';
import { LENGTH, announce, onToken, show, showPoll } from './view.js';

/** From one request to the next. */
const INTERVAL_MS = 1_000;
/** Rates need two answers: the second is asked for earlier. */
const FIRST_INTERVAL_MS = 400;
/** Least time between an answer and the next request. */
const LEAST_PAUSE_MS = 100;

const history = new History(LENGTH);
const mesh = new Mesh();
// A picture of any event is there within two seconds, also while a server hangs.
const poll = new Poll('/admin/nodes?timeout_ms=700');

poll.addEventListener('answer', ({ detail }) => {
  const snapshot = mesh.take(Date.now(), detail);
  history.add(lines(snapshot));
  show(snapshot, history);
});
poll.addEventListener('answer', () => setTimeout(announce, INTERVAL_MS), { once: true });
poll.addEventListener('state', () => showPoll(poll));
onToken((token) => poll.showToken(token));
setInterval(() => poll.look(), INTERVAL_MS);
showPoll(poll);

for (let interval = FIRST_INTERVAL_MS; ; interval = INTERVAL_MS) {
  const began = performance.now();
  await poll.ask();
  const pause = Math.max(LEAST_PAUSE_MS, began + interval - performance.now());
  await new Promise((resolve) => setTimeout(resolve, pause));
}
