/** The demo page: joins the SDK and the document together. */

import { Client } from '/client.js';
import { Room } from '/room.js';
import { Camera } from './camera.js';
import { explainError, explainQueuePlace, explainState } from './explain.js';
import { drawClientId, identify, randomName, roomLink, roomOf, storeName, storedName } from './identity.js';
import { MeshControl, showNodes } from './mesh.js';
import { showTiles } from './tiles.js';
import * as view from './view.js';

const ID_IN_USE = 4409;
/** A duplicated tab starts with its original's id and has to draw another. */
const MAX_DRAWS = 3;
const ROUND_TRIP_EVERY_MS = 2_000;

const { clientId, chosen } = identify(new URLSearchParams(location.search));
const nodeById = new Map();
const roundTripById = new Map();
let client, room = null, camera = null, name = storedName();
let wasConnected = false, wasInside = false, draws = 0, isDue = false;

const control = new MeshControl(() => client?.state === 'connected');

function start(id) {
  client = new Client({ urls: [`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/connect`], clientId: id });
  client.addEventListener('state', ({ detail }) => {
    if (detail.code === ID_IN_USE && !chosen && !wasConnected && draws < MAX_DRAWS) return startAgain();
    if (detail.state === 'connected') {
      wasConnected = true;
      noteNode(client.clientId, client.node);
    }
    view.showSignaling(detail.state, explainState(detail, wasConnected));
    draw();
  });
  client.addEventListener('moved', ({ detail }) => noteNode(client.clientId, detail.node));
  client.connect();
}

function startAgain() {
  draws += 1;
  const pending = room?.name;
  discardRoom();
  start(drawClientId());
  if (pending) enter(pending, name);
}

async function enter(roomName, ownName) {
  // The form may be sent again before it is hidden.
  if (room) return;
  name = ownName;
  storeName(name);
  camera = new Camera(name || client.clientId);
  const entered = new Room(client, roomName, { data: { name, node: client.node }, stream: camera.stream });
  [room, wasInside] = [entered, false];
  history.replaceState(null, '', `${location.search}#${encodeURIComponent(roomName)}`);
  entered.addEventListener('change', () => (entered === room ? roomChanged() : undefined));
  entered.addEventListener('open', ({ detail }) => entered.send({ kind: 'node', node: client.node }, detail.id));
  entered.addEventListener('message', ({ detail }) => hear(detail.from, detail.data));
  view.setText('lobby-notice', '');
  try {
    await entered.join();
  } catch (error) {
    if (entered === room && error.code !== 'closed') goOut(explainError(error));
  }
}

function roomChanged() {
  // Why it could not be entered, `join` tells.
  if (room.state === 'out' && wasInside) return goOut('You are out of the room.');
  wasInside ||= room.state === 'in' || room.state === 'waiting';
  for (const { id, data } of room.members) {
    if (!nodeById.has(id) && typeof data?.node === 'string') nodeById.set(id, data.node);
  }
  draw();
}

/** Back to the lobby. */
function goOut(why) {
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
  goOut('');
}

function hear(from, message) {
  if (message?.kind === 'chat' && typeof message.text === 'string') view.addMessage('peer', nameOf(from), message.text);
  if (message?.kind === 'node' && (message.node === null || typeof message.node === 'string')) noteNode(from, message.node);
}

/** Which node serves somebody; those who are moved say so to all. */
function noteNode(id, node) {
  const before = nodeById.get(id);
  if (node === null || node === before) return;
  nodeById.set(id, node);
  if (before !== undefined) view.addMove(nameOf(id), before, node);
  if (id === client.clientId) room?.send({ kind: 'node', node });
  draw();
}

function nameOf(id) {
  const shown = id === client.clientId ? name : room?.members.find((member) => member.id === id)?.data?.name;
  return typeof shown === 'string' && shown !== '' ? shown : id;
}

async function toggle(kind) {
  view.setText('stage-notice', '');
  try {
    await camera[kind]();
    room.setStream(camera.stream);
  } catch (error) {
    view.setText('stage-notice', error.name === 'NotAllowedError' ? 'The browser does not let this page do that.' : error.message);
  }
  draw();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(roomLink(room.name));
    view.setText('stage-notice', 'Copied: whoever opens it enters this room.');
  } catch {
    view.setText('stage-notice', `The browser does not let this page copy. The link: ${roomLink(room.name)}`);
  }
}

/** Draws once for all that changes in one go. */
function draw() {
  if (isDue) return;
  isDue = true;
  queueMicrotask(() => {
    isDue = false;
    drawNow();
  });
}

let ownStream = null;

function drawNow() {
  view.showSelf(client);
  view.showPart(room === null || room.state === 'out' ? 'lobby' : room.state === 'waiting' ? 'line' : 'stage');
  const others = room?.members ?? [];
  const self = { id: client.clientId, name: nameOf(client.clientId), isSelf: true };
  const people = [self, ...others.map(({ id }) => ({ id, name: nameOf(id), isSelf: false }))];
  if (room?.state === 'waiting') view.setText('line-text', explainQueuePlace(room.queuePlace));
  if (camera) {
    const tracks = (stream) => (stream?.getTracks() ?? []).map(({ id }) => id).join();
    const { stream } = camera;
    if (tracks(stream) !== tracks(ownStream)) ownStream = stream;
    view.press('camera-button', camera.hasPicture);
    view.press('sound-button', camera.hasSound);
  }
  if (room) {
    view.showRoom(room, people.length);
    view.element('send-button').disabled = !others.some(({ channelState }) => channelState === 'open');
    const tile = ({ id, state, stream }) => ({
      id, state, stream, name: nameOf(id), node: nodeById.get(id) ?? null, isSelf: false, roundTrip: roundTripById.get(id) ?? null,
    });
    showTiles(view.element('tiles'), [
      { ...self, node: client.node, state: 'connected', stream: ownStream, roundTrip: null },
      ...others.map(tile),
    ]);
  }
  drawMesh(people);
}

function drawMesh(people) {
  const served = people.filter(({ id }) => nodeById.has(id));
  const known = control.nodes ?? [];
  const unlisted = [...new Set(served.map(({ id }) => nodeById.get(id)))].filter((node) => !known.some(({ id }) => id === node));
  const nodes = [...known, ...unlisted.sort().map((id) => ({ id, state: '' }))];
  const membersOf = (node) => served.filter(({ id }) => nodeById.get(id) === node);
  showNodes(view.element('nodes'), nodes.map((node) => ({ ...node, members: membersOf(node.id) })), control.nodes !== null);
  view.element('mesh-empty').hidden = nodes.length > 0;
  view.element('add-node-button').hidden = control.nodes === null;
}

control.addEventListener('change', draw);
control.addEventListener('problem', ({ detail }) => view.setText('mesh-notice', detail));
const act = (deed) => (id) => {
  view.setText('mesh-notice', '');
  deed(id);
};
view.listen({
  reconnect: () => client.connect(),
  enter,
  leave,
  camera: () => toggle('togglePicture'),
  sound: () => toggle('toggleSound'),
  copy,
  say: (text) => {
    room.send({ kind: 'chat', text });
    view.addMessage('me', 'you', text);
  },
  addNode: act(() => control.add()),
  drain: act((id) => control.drain(id)),
  kill: act((id) => control.kill(id)),
});
setInterval(async () => {
  for (const { id } of room?.members ?? []) roundTripById.set(id, (await room?.roundTripMs(id)) ?? null);
  draw();
}, ROUND_TRIP_EVERY_MS);

start(clientId);
const invited = roomOf(location);
view.element('room').value = invited || randomName();
view.element('name').value = name;
// Sent before there is a script to take it, the form would leave the page.
view.element('enter-button').disabled = false;
if (invited) enter(invited, name);
draw();
