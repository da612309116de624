/** Sessions of pages that are left, reloaded, shown again or duplicated. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { FakeBrowser, FakeStorage, resumeOf } from './testing/browser.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

/** Close code of a page that leaves its socket and keeps its session. */
const SOCKET_LEFT = 4001;
/** `persisted` of a page that the browser keeps and may show again. */
const KEPT = true;
/** `persisted` of a page that the browser ends. */
const ENDED = false;
const welcome = (socket, resume, resumed) => socket.deliver({ ...WELCOME, resume, resumed });
const requests = ({ sent }) => sent.map((text) => JSON.parse(text)).map(({ id, data }) => [id, data]);

function start(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  return { browser: new FakeBrowser(context), tab: new FakeStorage() };
}

test('next page resumes the session of a page that is left', (context) => {
  const { browser, tab } = start(context);
  const first = browser.open(tab);
  welcome(first.socket, 'r1', false);
  first.fire('pagehide', ENDED);
  assert.deepEqual([first.socket.closed, first.client.state], [SOCKET_LEFT, 'disconnected']);
  const second = browser.open(tab);
  assert.equal(resumeOf(second.socket), 'r1');
  assert.deepEqual([tab.length, browser.localStorage.length], [0, 0]);
  second.client.close();
});

test('page that is shown again keeps its session and requests', async (context) => {
  const { browser, tab } = start(context);
  const page = browser.open(tab);
  welcome(page.socket, 'r1', false);
  const early = page.client.signal('bob', 'before');
  page.fire('pagehide', KEPT);
  assert.deepEqual([page.socket.closed, page.client.state], [SOCKET_LEFT, 'reconnecting']);
  const late = page.client.signal('bob', 'while hidden');
  page.fire('pageshow', KEPT);
  const socket = FakeSocket.latest;
  assert.equal(resumeOf(socket), 'r1');
  welcome(socket, 'r2', true);
  assert.deepEqual(requests(socket), [[1, 'before'], [2, 'while hidden']]);
  socket.deliver({ type: 'ack', id: 1 });
  socket.deliver({ type: 'ack', id: 2 });
  await Promise.all([early, late]);
  assert.deepEqual(page.states, ['connecting', 'connected', 'reconnecting', 'connected']);
  assert.deepEqual([tab.length, browser.localStorage.length], [0, 0]);
  page.client.close();
});

test('room of a saved session reports that the client joins', (context) => {
  const { browser, tab } = start(context);
  const { client, socket } = browser.open(tab);
  const room = client.room('hall');
  const changes = [];
  room.on('change', () => changes.push(`${room.state} ${room.revision}`));
  welcome(socket, 'r1', false);
  room.join().catch(() => {});
  client.detach();
  client.connect();
  assert.deepEqual(changes, ['joining 1', 'out 2', 'joining 3']);
  client.close();
});

test('connect after detach resumes the session that was saved', (context) => {
  const { browser, tab } = start(context);
  const { client, socket } = browser.open(tab);
  welcome(socket, 'r1', false);
  client.detach();
  client.connect();
  assert.equal(resumeOf(FakeSocket.latest), 'r1');
  client.close();
});

test('page that is shown again takes the session of a later page', async (context) => {
  const { browser, tab } = start(context);
  const first = browser.open(tab);
  welcome(first.socket, 'r1', false);
  const unanswered = assert.rejects(first.client.signal('bob', 'one'), { code: 'closed' });
  first.fire('pagehide', KEPT);
  const second = browser.open(tab);
  welcome(second.socket, 'r2', true);
  second.socket.deliver({ type: 'ack', id: 1 });
  second.client.signal('bob', 'two').catch(() => {});
  second.fire('pagehide', KEPT);
  first.fire('pageshow', KEPT);
  const socket = FakeSocket.latest;
  assert.equal(resumeOf(socket), 'r2');
  welcome(socket, 'r3', true);
  assert.deepEqual(requests(socket), [[2, 'two']]);
  await unanswered;
  assert.deepEqual(first.states.slice(-3), ['disconnected', 'connecting', 'connected']);
  first.fire('online');
  assert.equal(socket.sent.at(-1), '{"type":"ping"}', 'the client follows events of the page again');
  first.client.close();
});

test('message seen before a reload is not reported again', (context) => {
  const { browser, tab } = start(context);
  // A name that counted from 0 would no longer be known.
  context.mock.method(performance, 'now', () => 2_000_000);
  const got = [];
  const first = browser.open(tab);
  welcome(first.socket, 'r1', false);
  const message = { type: 'signal', from: 'bob', data: 1, n: 1, m: 'b-1' };
  first.socket.deliver(message);
  first.fire('pagehide', ENDED);
  const second = browser.open(tab);
  second.client.on('signal', ({ data }) => got.push(data));
  welcome(second.socket, 'r2', true);
  second.socket.deliver(message);
  second.socket.deliver({ ...message, data: 2, n: 2, m: 'b-2' });
  assert.deepEqual(got, [2]);
  second.client.close();
});

test('first of two tabs with one saved session takes it', (context) => {
  for (const persisted of [ENDED, KEPT]) {
    const { browser, tab } = start(context);
    const page = browser.open(tab);
    welcome(page.socket, 'r1', false);
    page.client.signal('bob', 'once').catch(() => {});
    page.fire('pagehide', persisted);
    const duplicate = tab.copy();
    const sockets = [browser.open(duplicate), browser.open(tab)].map(({ socket }) => socket);
    assert.deepEqual(sockets.map(resumeOf), ['r1', undefined]);
    welcome(sockets[1], 'x1', false);
    assert.deepEqual(sockets[1].sent, [], 'the copy repeats no request');
    context.mock.timers.reset();
  }
});

test('page that is shown again leaves its session to a duplicate', async (context) => {
  const { browser, tab } = start(context);
  const page = browser.open(tab);
  welcome(page.socket, 'r1', false);
  const unanswered = assert.rejects(page.client.signal('bob', 'once'), { code: 'closed' });
  page.fire('pagehide', KEPT);
  assert.equal(resumeOf(browser.open(tab.copy()).socket), 'r1');
  page.fire('pageshow', KEPT);
  const socket = FakeSocket.latest;
  assert.equal(resumeOf(socket), undefined);
  welcome(socket, 'x1', false);
  assert.deepEqual(socket.sent, []);
  await unanswered;
});

test('session is not resumed after close', (context) => {
  const { browser, tab } = start(context);
  const page = browser.open(tab);
  welcome(page.socket, 'r1', false);
  page.fire('pagehide', KEPT);
  page.client.close();
  page.fire('pageshow', KEPT);
  assert.deepEqual([page.client.state, tab.length, browser.localStorage.length], ['disconnected', 0, 0]);
  page.client.connect();
  assert.equal(resumeOf(FakeSocket.latest), undefined);
  page.client.close();
});

test('session is kept when pages cannot store anything', (context) => {
  const { browser } = start(context);
  const setItem = () => {
    throw new DOMException('', 'QuotaExceededError');
  };
  const full = { getItem: () => null, removeItem() {}, setItem };
  for (const storage of [null, full]) {
    const page = browser.open(storage);
    welcome(page.socket, 'r1', false);
    page.fire('pagehide', KEPT);
    page.fire('pageshow', KEPT);
    assert.equal(resumeOf(FakeSocket.latest), 'r1');
    page.client.close();
  }
});

test('session passes between pages without localStorage', (context) => {
  const { browser, tab } = start(context);
  for (const localStorage of [null, { getItem: () => null }]) {
    globalThis.localStorage = localStorage;
    const first = browser.open(tab);
    welcome(first.socket, 'r1', false);
    first.fire('pagehide', ENDED);
    const second = browser.open(tab);
    assert.equal(resumeOf(second.socket), 'r1');
    second.client.close();
  }
});

test('claim that no page takes is removed after ten minutes', (context) => {
  const { browser } = start(context);
  const { localStorage } = browser;
  const first = 1_000_000;
  let now = first;
  context.mock.method(Date, 'now', () => now);
  const keys = () => Array.from({ length: localStorage.length }, (_, at) => localStorage.key(at));
  const values = () => keys().map((key) => localStorage.getItem(key));
  // A saved session has a claim with its time in the localStorage. Each save removes old claims.
  const save = () => {
    const page = browser.open(new FakeStorage());
    welcome(page.socket, 'r1', false);
    page.fire('pagehide', ENDED);
  };
  // Entries of the page itself stay.
  localStorage.setItem('of the page', '1');
  save();
  now = first + 599_999;
  save();
  assert.deepEqual(values(), ['1', `${first}`, `${first + 599_999}`]);
  now = first + 600_000;
  save();
  assert.deepEqual(values(), ['1', `${first + 599_999}`, `${first + 600_000}`]);
});
