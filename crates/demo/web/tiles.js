/** One tile per member of the room: picture, name, node and direct connection. */

/** Tone of the badge for each state of a direct connection: `data-tone` in style.css. */
const TONES = {
  connected: 'good',
  connecting: 'busy',
  new: 'busy',
  disconnected: 'busy',
  none: 'busy',
  failed: 'bad',
  closed: 'bad',
};

/** Labels of states, where they differ from the browser's names. */
const LABELS = { new: 'connecting', none: 'not connected', closed: 'gone' };

/** `true` once the user has interacted with the page. Browsers play no sound before. */
let mayPlaySound = false;
for (const type of ['pointerdown', 'keydown']) {
  addEventListener(type, () => {
    mayPlaySound = navigator.userActivation?.hasBeenActive ?? true;
    const videos = document.querySelectorAll('#tiles [data-peer] video');
    for (const video of videos) video.muted = !mayPlaySound;
  });
}

/**
 * @typedef {object} Member
 * @property {string} id client id, different for each member
 * @property {string} name shown name
 * @property {boolean} isSelf `true` for the client of this page
 * @property {string | null} node id of the node that serves the client; null: unknown
 * @property {string} state of the direct connection: a key of `TONES`. Not shown if `isSelf`
 * @property {boolean} isAway `true` while the client's page is gone or unreachable
 * @property {MediaStream | null} stream picture and sound; null: none
 * @property {number | null} roundTripMs round trip time in milliseconds; null: unknown
 */

/**
 * Shows one tile per member, in this order. Keeps the tile of an id that already has one. Sets
 * `data-count` of the list to the number of tiles, for style.css.
 *
 * @param {HTMLElement} list the element `#tiles`, whose videos get sound once they may play it
 * @param {Member[]} members
 */
export function showTiles(list, members) {
  const tileById = new Map([...list.children].map((tile) => [tile.dataset.id, tile]));
  const tiles = members.map((member) => {
    const tile = tileById.get(member.id) ?? makeTile(member);
    fillTile(tile, member);
    return tile;
  });
  tiles.forEach((tile, index) => {
    if (list.children[index] !== tile) list.insertBefore(tile, list.children[index] ?? null);
  });
  while (list.children.length > tiles.length) list.lastElementChild.remove();
  list.dataset.count = String(tiles.length);
}

function makeTile({ id, isSelf }) {
  const tile = document.createElement('li');
  tile.dataset.id = id;
  if (!isSelf) tile.dataset.peer = id;
  const video = document.createElement('video');
  Object.assign(video, { autoplay: true, playsInline: true });
  video.muted = isSelf || !mayPlaySound;
  const caption = make('div', 'caption');
  caption.append(make('span', 'who'), make('span', 'node'), make('span', 'badge'));
  tile.append(video, make('div', 'blank'), caption);
  return tile;
}

function fillTile(tile, { state, isAway, stream, ...member }) {
  tile.classList.toggle('away', isAway);
  const hasPicture = stream !== null && state !== 'new' && stream.getVideoTracks().length > 0;
  fillPicture(tile, member, hasPicture, stream);
  const caption = tile.querySelector('.caption');
  setText(caption.querySelector('.who'), member.isSelf ? `${member.name} (you)` : member.name);
  setText(caption.querySelector('.node'), member.node ?? '');
  const badge = caption.querySelector('.badge');
  badge.hidden = member.isSelf;
  badge.dataset.tone = isAway ? 'busy' : (TONES[state] ?? '');
  badge.dataset.state = isAway ? 'away' : state;
  setText(badge, isAway ? 'away' : labelOf(state, member.roundTripMs));
}

function fillPicture(tile, { name, isSelf }, hasPicture, stream) {
  const video = tile.querySelector('video');
  if (video.srcObject !== stream) {
    video.srcObject = stream;
    // Browsers may reject a video with sound before the user has interacted with the page.
    video.play().catch(() => {});
  }
  video.hidden = !hasPicture;
  video.setAttribute('aria-label', `Picture of ${isSelf ? 'you' : name}`);
  setText(tile.querySelector('.blank'), hasPicture ? '' : name.slice(0, 2));
}

function labelOf(state, roundTripMs) {
  if (state !== 'connected' || roundTripMs === null) return LABELS[state] ?? state;
  return `direct, ${roundTripMs < 1 ? '<1' : Math.round(roundTripMs)} ms`;
}

/** Sets a text if it differs: screen readers announce each change. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(kind, className) {
  return Object.assign(document.createElement(kind), { className });
}
