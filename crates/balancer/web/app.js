/** The demo page: connects the SDK to the document. */

import { Client } from '/client.js';
import { Room } from '/room.js';
import { Camera } from './camera.js';
import { explainError, explainQueuePlace, explainState } from './explain.js';
import { newClientId, randomName, tabClientId } from './identity.js';
import { roomLink, roomOf, storeName, storedName } from './identity.js';
import { MeshControl, showNodes } from './mesh.js';
import { showTiles } from './tiles.js';
import * as view from './view.js';

const ID_IN_USE = 4409;
/** Maximum new ids: a duplicated tab starts with the id of its original, which is in use. */
const MAX_NEW_IDS = 3;
/** Interval of round trip measurements, in milliseconds. */
const ROUND_TRIP_MS = 2_000;

const URL_OF_MESH = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/connect`;

const { clientId, chosen } = tabClientId(new URLSearchParams(location.search));
const nodeById = new Map();
const roundTripById = new Map();
let client;
let room = null;
let camera = null;
/** Name that the user entered; empty for none. */
let name = storedName();
let newIds = 0;
let wasConnected = false;
/** Whether the user was in the room or its waiting queue. */
let wasInside = false;
let isDrawPending = false;

const control = new MeshControl(() => client?.state === 'connected');

function start(id) {
  client = new Client({ urls: [URL_OF_MESH], clientId: id });
  client.addEventListener('state', ({ detail }) => {
    const mayChangeId = !chosen && !wasConnected && newIds < MAX_NEW_IDS;
    if (detail.code === ID_IN_USE && mayChangeId) return startAgain();
    if (detail.state === 'connected') {
      wasConnected = true;
      setNode(client.clientId, client.node);
    }
    view.showSignaling(detail.state, explainState(detail, wasConnected));
    draw();
  });
  client.addEventListener('moved', ({ detail }) => setNode(client.clientId, detail.node));
  client.connect();
}

function startAgain() {
  newIds += 1;
  const pending = room?.name;
  discardRoom();
  start(newClientId());
  if (pending) enter(pending, name);
}

async function enter(roomName, ownName) {
  // The user can submit the form again before it is hidden.
  if (room) return;
  name = ownName;
  storeName(name);
  camera = new Camera(name || client.clientId);
  const entered = new Room(client, roomName, { data: { name, node: client.node }, stream: camera.stream });
  room = entered;
  wasInside = false;
  history.replaceState(null, '', `${location.search}#${encodeURIComponent(roomName)}`);
  entered.addEventListener('change', () => {
    if (entered === room) roomChanged();
  });
  entered.addEventListener('open', ({ detail }) => {
    entered.send({ kind: 'node', node: client.node }, detail.id);
  });
  entered.addEventListener('message', ({ detail }) => handleMessage(detail.from, detail.data));
  view.setText('lobby-notice', '');
  try {
    await entered.join();
  } catch (error) {
    if (entered === room && error.code !== 'closed') returnToLobby(explainError(error));
  }
}

function roomChanged() {
  // `join` rejects if the room could not be entered.
  if (room.state === 'out' && wasInside) return returnToLobby('You are no longer in the room.');
  wasInside ||= room.state === 'in' || room.state === 'waiting';
  for (const { id, data } of room.members) {
    if (!nodeById.has(id) && typeof data?.node === 'string') nodeById.set(id, data.node);
  }
  draw();
}

function returnToLobby(why) {
  discardRoom();
  view.setText('lobby-notice', why);
  draw();
}

function discardRoom() {
  const left = room;
  room = null;
  left?.leave().catch(() => {});
  camera?.stop();
  camera = null;
  nodeById.clear();
  roundTripById.clear();
  if (client.node) nodeById.set(client.clientId, client.node);
  view.clearMessages();
}

function leave() {
  const { search } = location;
  history.replaceState(null, '', search || '/');
  returnToLobby('');
}

function handleMessage(from, message) {
  const { kind, text, node } = message ?? {};
  if (kind === 'chat' && typeof text === 'string') view.addMessage('peer', nameOf(from), text);
  if (kind === 'node' && (node === null || typeof node === 'string')) setNode(from, node);
}

/** Sets the node that serves a client. Members report their own node to the others. */
function setNode(id, node) {
  const before = nodeById.get(id);
  if (node === null || node === before) return;
  nodeById.set(id, node);
  if (before !== undefined) view.addMove(nameOf(id), before, node);
  if (id === client.clientId) room?.send({ kind: 'node', node });
  draw();
}

function nameOf(id) {
  const member = room?.members.find((other) => other.id === id);
  const chosenName = id === client.clientId ? name : member?.data?.name;
  return typeof chosenName === 'string' && chosenName !== '' ? chosenName : id;
}

async function toggle(kind) {
  view.setText('stage-notice', '');
  const used = camera;
  try {
    await used[kind]();
    // The user may have left the room while the browser asked.
    if (used === camera) room.setStream(used.stream);
    else used.stop();
  } catch (error) {
    const isForbidden = error.name === 'NotAllowedError';
    view.setText('stage-notice', isForbidden ? 'The browser does not allow this.' : error.message);
  }
  draw();
}

async function copy() {
  const link = roomLink(room.name);
  try {
    await navigator.clipboard.writeText(link);
    view.setText('stage-notice', 'Copied. The link leads into this room.');
  } catch {
    view.setText('stage-notice', `The browser does not allow copying. The link: ${link}`);
  }
}

/** Draws the page once for all changes of this task. */
function draw() {
  if (isDrawPending) return;
  isDrawPending = true;
  queueMicrotask(() => {
    isDrawPending = false;
    drawNow();
  });
}

/** The stream in the own tile. It changes only with its tracks, because a change flickers. */
let ownStream = null;

function drawNow() {
  view.showSelf(client);
  view.showPart(partOf(room?.state ?? 'out'));
  const others = room?.members ?? [];
  const self = { id: client.clientId, name: nameOf(client.clientId), isSelf: true };
  const people = [self, ...others.map(({ id }) => ({ id, name: nameOf(id), isSelf: false }))];
  if (camera) drawCamera();
  if (room) drawRoom(self, others);
  drawMesh(people);
}

function partOf(roomState) {
  if (roomState === 'out') return 'lobby';
  return roomState === 'waiting' ? 'queue' : 'stage';
}

function drawCamera() {
  const tracks = (stream) => (stream?.getTracks() ?? []).map(({ id }) => id).join();
  const { stream } = camera;
  if (tracks(stream) !== tracks(ownStream)) ownStream = stream;
  view.press('camera-button', camera.hasPicture);
  view.press('sound-button', camera.hasSound);
}

function drawRoom(self, others) {
  if (room.state === 'waiting') view.setText('queue-text', explainQueuePlace(room.queuePlace));
  view.showRoom(room, others.length + 1);
  const isOpen = others.some(({ channelState }) => channelState === 'open');
  view.element('send-button').disabled = !isOpen;
  const ownTile = {
    ...self,
    node: client.node,
    state: 'connected',
    stream: ownStream,
    roundTripMs: null,
  };
  const tiles = others.map(({ id, state, stream }) => ({
    id,
    name: nameOf(id),
    isSelf: false,
    node: nodeById.get(id) ?? null,
    state,
    stream,
    roundTripMs: roundTripById.get(id) ?? null,
  }));
  showTiles(view.element('tiles'), [ownTile, ...tiles]);
}

function drawMesh(people) {
  const served = people.filter(({ id }) => nodeById.has(id));
  const listed = control.nodes ?? [];
  const isListed = (node) => listed.some(({ id }) => id === node);
  const serving = new Set(served.map(({ id }) => nodeById.get(id)));
  const unlisted = [...serving].filter((node) => !isListed(node)).sort();
  const membersOf = (node) => served.filter(({ id }) => nodeById.get(id) === node);
  const nodes = [...listed, ...unlisted.map((id) => ({ id, state: '' }))];
  const cards = nodes.map((node) => ({ ...node, members: membersOf(node.id) }));
  showNodes(view.element('nodes'), cards, control.nodes !== null);
  view.element('mesh-empty').hidden = nodes.length > 0;
  view.element('add-node-button').hidden = control.nodes === null;
}

control.addEventListener('change', draw);
control.addEventListener('problem', ({ detail }) => view.setText('mesh-notice', detail));
const withoutNotice = (action) => (id) => {
  view.setText('mesh-notice', '');
  action(id);
};
view.listen({
  reconnect: () => client.connect(),
  enter,
  leave,
  camera: () => toggle('togglePicture'),
  sound: () => toggle('toggleSound'),
  copy,
  sendChat: (text) => {
    room.send({ kind: 'chat', text });
    view.addMessage('me', 'you', text);
  },
  addNode: withoutNotice(() => control.add()),
  drain: withoutNotice((id) => control.drain(id)),
  kill: withoutNotice((id) => control.kill(id)),
});
setInterval(async () => {
  for (const { id } of room?.members ?? []) {
    roundTripById.set(id, (await room?.roundTripMs(id)) ?? null);
  }
  draw();
}, ROUND_TRIP_MS);

start(clientId);
const invited = roomOf(location);
view.element('room').value = invited || randomName();
view.element('name').value = name;
// Enabled here: without this script a submitted form leaves the page.
view.element('enter-button').disabled = false;
if (invited) enter(invited, name);
draw();
