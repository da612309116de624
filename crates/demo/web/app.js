/** The demo page: connects the SDK to the document. */

import { Call, Client } from '/signaling-mesh.mjs';
import { Camera } from './camera.js';
import { explainError, explainQueuePlace, explainState } from './explain.js';
import { newClientId, storeName, storedName, tabClientId, tabRoom } from './identity.js';
import { MeshControl, showNodes } from './mesh.js';
import { showTiles } from './tiles.js';
import * as view from './view.js';

const ID_IN_USE = 4409;
/** Maximum new ids: a duplicated tab starts with the id of its original, which is in use. */
const MAX_NEW_IDS = 3;
/** Interval of round trip measurements, in milliseconds. */
const ROUND_TRIP_MS = 2_000;
/** Interval at which the client's node is read, in milliseconds. */
const NODE_MS = 250;

const { clientId, chosen } = tabClientId(new URLSearchParams(location.search));
const roomName = tabRoom();
const roundTripById = new Map();
/** Node of each client, as its owner reports it. */
const nodeById = new Map();
let name = storedName();
const camera = new Camera(name || clientId);
let client, room, call;
let newIds = 0;
let wasConnected = false;
/** Why the client is not in the room; empty: it enters or is in. */
let outside = '';
let isDrawPending = false;

const control = new MeshControl(() => client?.state === 'connected');

function start(id) {
  client = new Client(location.origin, { clientId: id });
  room = client.room(roomName);
  call = new Call(room, { stream: camera.stream });
  // An id in use ends this client, but not what the page shows of the next one.
  const own = client;
  const ifCurrent = (handle) => (event) => own === client && handle(event);
  client.on('state', ifCurrent(stateChanged));
  room.on('join', ifCurrent(({ id: other, data }) => setNode(other, data?.node)));
  room.on('update', ifCurrent(({ id: other, data }) => setNode(other, data?.node)));
  room.on('state', ifCurrent(roomChanged));
  room.on('change', ifCurrent(draw));
  call.on('change', ifCurrent(draw));
  call.on('message', ifCurrent(({ from, data }) => {
    if (typeof data?.text === 'string') view.addMessage('peer', nameOf(from), data.text);
  }));
  // The others see the client's node from the start.
  client.once('connected', ifCurrent(enter));
  client.connect();
}

function stateChanged(change) {
  const mayChangeId = !chosen && !wasConnected && newIds < MAX_NEW_IDS;
  if (change.reason?.closeCode === ID_IN_USE && mayChangeId) {
    newIds += 1;
    call.close();
    const id = newClientId();
    camera.setName(name || id);
    return start(id);
  }
  wasConnected ||= change.state === 'connected';
  view.showSignaling(change.state, explainState(change, wasConnected));
  readNode();
  draw();
}

function roomChanged({ state, reason }) {
  if (state === 'out') view.clearMessages();
  if (state === 'out' && outside === '') outside = `You are no longer in the room${reason ? ` (${reason})` : ''}.`;
}

async function enter() {
  const own = client;
  outside = '';
  draw();
  try {
    await room.join({ data: ownData() });
  } catch (error) {
    // The state of the room, which comes first, has its reason as a code alone.
    if (own === client && room.state === 'out' && error.code !== 'left') outside = explainError(error);
  }
  draw();
}

function leave() {
  outside = 'You left the room.';
  room.leave().catch(() => {});
  draw();
}

const ownData = () => ({ name, node: client.node });

/** Shows the own name and node to the others. */
function showData() {
  if (room.state === 'member') room.update(ownData()).catch(() => {});
}

function rename(newName) {
  name = newName;
  storeName(name);
  camera.setName(name || client.clientId);
  showData();
  draw();
}

/** The client may have moved to another node. */
function readNode() {
  const before = nodeById.get(client.clientId);
  setNode(client.clientId, client.node);
  if (before !== undefined && nodeById.get(client.clientId) !== before) showData();
}

function setNode(id, node) {
  const before = nodeById.get(id);
  if (typeof node !== 'string' || node === before) return;
  nodeById.set(id, node);
  if (before !== undefined) view.addMove(nameOf(id), before, node);
  draw();
}

function nameOf(id) {
  const chosenName = id === client.clientId ? name : call.peers.find((peer) => peer.id === id)?.data?.name;
  return typeof chosenName === 'string' && chosenName !== '' ? chosenName : id;
}

async function toggle(kind) {
  view.setText('stage-notice', '');
  try {
    await camera[kind]();
    call.publish(camera.stream);
  } catch (error) {
    const isForbidden = error.name === 'NotAllowedError';
    view.setText('stage-notice', isForbidden ? 'The browser does not allow this.' : error.message);
  }
  draw();
}

async function share() {
  const url = view.showLink();
  try {
    if (navigator.share) return await navigator.share({ url, title: document.title });
    await navigator.clipboard.writeText(url);
    view.setText('stage-notice', 'Copied. The link leads into this room.');
  } catch (error) {
    if (error.name !== 'AbortError') view.setText('stage-notice', `The link: ${url}`);
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
  drawCamera();
  view.showPart(partOf(room.state));
  if (room.state === 'waiting') view.setText('queue-text', explainQueuePlace(room.queuePlace));
  view.setText('outside-text', outside);
  view.showRoom(room, call.peers.length + 1);
  view.element('send-button').disabled = !call.peers.some(({ channelState }) => channelState === 'open');
  showTiles(view.element('tiles'), [ownTile(), ...call.peers.map(tileOf)]);
  drawMesh();
}

function partOf(state) {
  if (state === 'waiting') return 'queue';
  return state === 'out' && outside !== '' ? 'outside' : 'stage';
}

function drawCamera() {
  const tracks = (stream) => (stream?.getTracks() ?? []).map(({ id }) => id).join();
  const { stream } = camera;
  if (tracks(stream) !== tracks(ownStream)) ownStream = stream;
  view.press('camera-button', camera.hasPicture);
  view.press('sound-button', camera.hasSound);
}

const ownTile = () => ({
  id: client.clientId,
  name: nameOf(client.clientId),
  isSelf: true,
  node: client.node,
  state: 'connected',
  isAway: false,
  stream: ownStream,
  roundTripMs: null,
});

const tileOf = ({ id, state, isAway, stream }) => ({
  id,
  name: nameOf(id),
  isSelf: false,
  node: nodeById.get(id) ?? null,
  state,
  isAway,
  stream,
  roundTripMs: roundTripById.get(id) ?? null,
});

function drawMesh() {
  const people = [ownTile(), ...call.peers.map(tileOf)].filter(({ id }) => nodeById.has(id));
  const listed = control.nodes ?? [];
  const isListed = (node) => listed.some(({ id }) => id === node);
  const serving = new Set(people.map(({ id }) => nodeById.get(id)));
  const unlisted = [...serving].filter((node) => !isListed(node)).sort();
  const nodes = [...listed, ...unlisted.map((id) => ({ id, state: '' }))];
  const membersOf = (node) => people.filter(({ id }) => nodeById.get(id) === node);
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
  enter: () => {
    client.connect();
    enter();
  },
  leave,
  rename,
  camera: () => toggle('togglePicture'),
  sound: () => toggle('toggleSound'),
  share,
  sendChat: (text) => {
    call.send({ text });
    view.addMessage('me', 'you', text);
  },
  addNode: withoutNotice(() => control.add()),
  drain: withoutNotice((id) => control.drain(id)),
  kill: withoutNotice((id) => control.kill(id)),
});
setInterval(readNode, NODE_MS);
setInterval(async () => {
  for (const { id } of call.peers) roundTripById.set(id, await call.roundTripMs(id));
  draw();
}, ROUND_TRIP_MS);

view.element('name').value = name;
start(clientId);
