/** One tile for each member of the room: picture, name, node, and how the direct connection is. */

const TONES = {
  connected: 'good', connecting: 'busy', new: 'busy', disconnected: 'busy', none: 'busy', failed: 'bad', closed: 'bad',
};

/** Where the browser's own word tells people little. */
const WORDS = { new: 'connecting', none: 'not connected', closed: 'gone' };

/** Browsers play sound only after the user has done something. */
let mayPlaySound = false;
for (const type of ['pointerdown', 'keydown']) {
  addEventListener(type, () => {
    mayPlaySound = navigator.userActivation?.hasBeenActive ?? true;
    for (const video of document.querySelectorAll('#tiles [data-peer] video')) video.muted = !mayPlaySound;
  });
}

/**
 * @param {HTMLElement} list
 * @param {{id: string, name: string, node: string | null, state: string, isSelf: boolean, stream: MediaStream | null,
 *   roundTrip: number | null}[]} members
 */
export function showTiles(list, members) {
  const tileById = new Map([...list.children].map((tile) => [tile.dataset.id, tile]));
  const tiles = members.map((member) => {
    const tile = tileById.get(member.id) ?? makeTile(member);
    fillTile(tile, member);
    return tile;
  });
  tiles.forEach((tile, at) => {
    if (list.children[at] !== tile) list.insertBefore(tile, list.children[at] ?? null);
  });
  while (list.children.length > tiles.length) list.lastElementChild.remove();
  list.dataset.count = String(tiles.length);
}

function makeTile({ id, isSelf }) {
  const tile = document.createElement('li');
  tile.dataset.id = id;
  if (!isSelf) tile.dataset.peer = id;
  const video = Object.assign(document.createElement('video'), { autoplay: true, playsInline: true });
  video.muted = isSelf || !mayPlaySound;
  const caption = make('div', 'caption');
  caption.append(make('span', 'who'), make('span', 'node'), make('span', 'badge'));
  tile.append(video, make('div', 'blank'), caption);
  return tile;
}

function fillTile(tile, { name, node, state, isSelf, stream, roundTrip }) {
  const [video, caption] = [tile.querySelector('video'), tile.querySelector('.caption')];
  const hasPicture = stream !== null && (isSelf || state === 'connected' || state === 'disconnected');
  if (video.srcObject !== stream) {
    video.srcObject = stream;
    // Until the user has done something, pictures with sound may not start by themselves; muted ones may.
    video.play().catch(() => {});
  }
  video.hidden = !hasPicture;
  const isTimed = state === 'connected' && roundTrip !== null;
  const text = isTimed ? `direct, ${roundTrip < 1 ? '<1' : Math.round(roundTrip)} ms` : (WORDS[state] ?? state);
  setText(tile.querySelector('.blank'), hasPicture ? '' : name.slice(0, 2));
  setText(caption.querySelector('.who'), isSelf ? `${name} (you)` : name);
  setText(caption.querySelector('.node'), node ?? '');
  const badge = caption.querySelector('.badge');
  badge.hidden = isSelf;
  badge.dataset.tone = TONES[state] ?? '';
  badge.dataset.state = state;
  setText(badge, text);
  video.setAttribute('aria-label', `Picture of ${isSelf ? 'you' : name}`);
}

/** Leaves alone what is as it should be, so that screen readers are told of changes alone. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(kind, className) {
  return Object.assign(document.createElement(kind), { className });
}
