/** The page: a snapshot a second, drawn as it comes. */

import { History } from './history.js';
import { lines } from './reading.js';
import { Stream } from './stream.js';
import { LENGTH, announce, show, showStream } from './view.js';

const LOOK_MS = 1_000;

const history = new History(LENGTH);
const stream = new Stream('/dashboard/events');

stream.addEventListener('snapshot', ({ detail }) => {
  history.add(lines(detail));
  show(detail, history);
});
stream.addEventListener('snapshot', () => setTimeout(announce, LOOK_MS), { once: true });
stream.addEventListener('state', () => showStream(stream));
setInterval(() => stream.look(), LOOK_MS);
showStream(stream);
