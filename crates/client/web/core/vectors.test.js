/** Runs `../../vectors/*.json`, which the Rust SDK passes too. A case may be for one of them. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';

import { Core } from './core.js';

const FOLDER = new URL('../../vectors/', import.meta.url);

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.json'))) {
  const { cases } = JSON.parse(readFileSync(new URL(file, FOLDER)));
  for (const { name, options = {}, each = [null], steps, for: only = 'web' } of cases) {
    if (only !== 'web') continue;
    test(`${file}: ${name}`, () => {
      for (const value of each) run(options, replace(steps, (text) => pick(text, value)));
    });
  }
}

function run({ queue_bytes: queueBytes, timeout_ms: timeoutMs, session, ...options }, steps) {
  const core = new Core({ clientId: 'me', urls: 1, tokens: false, queueBytes, timeoutMs, ...options });
  if (session) core.restore(0, session);
  for (const { at, out, error, next, ...others } of steps) {
    const { random = 0.5, times = 1, ...step } = others;
    const what = `at ${at}: ${JSON.stringify(step.in)}`;
    for (let number = 1; number <= times; number += 1) {
      const given = filled(replace(step.in, (text) => numbered(text, number)));
      const perform = () => input(core, at, random, given);
      if (error) assert.throws(perform, { code: error }, what);
      else perform();
    }
    const [word] = typeof step.in === 'string' ? [step.in] : Object.keys(step.in);
    const effects = core.take().map((effect) => comparable(core, effect, word));
    if (out !== 'any') assert.deepEqual(effects, filled(out.flatMap(repeated)), what);
    if (next !== undefined) assert.equal(core.deadline, next ?? Infinity, `${what}: the next tick`);
  }
}

function input(core, now, random, given) {
  const [[word, fields]] = typeof given === 'string' ? [[given]] : Object.entries(given);
  switch (word) {
    case 'start':
    case 'tick':
    case 'shown':
    case 'close':
    case 'detach':
    case 'suspend':
    case 'hidden':
    case 'opened':
    case 'cancel':
    case 'lost':
      return core[word](now, random, fields);
    case 'token':
      return core.token(now, random, { token: fields.token, validMs: fields.valid_ms ?? undefined });
    case 'refused': {
      // WebSockets do not report an HTTP answer. Its wait is like that of a `goodbye`.
      const { retry_after_ms: wait, ...ending } = fields;
      if (wait) core.text(now, random, JSON.stringify({ type: 'goodbye', retry_after_ms: wait }));
      return core.lost(now, random, ending);
    }
    case 'network_changed':
      return core.networkChanged(now, random);
    case 'text':
      return core.text(now, random, JSON.stringify(fields));
    case 'raw':
      return core.text(now, random, fields);
    case 'token_failed':
      return core.tokenFailed(now, random);
    default:
      return core.request(now, { type: word, ...fields });
  }
}

/** Returns an effect in the form of the vectors. It must not have other fields. */
function comparable(core, effect, word) {
  if (typeof effect === 'string') return effect;
  return JSON.parse(JSON.stringify(formOf(core, effect, word)));
}

function formOf(core, effect, word) {
  if (effect.write) return { ...effect, write: JSON.parse(effect.write) };
  if (effect.settle) return outcomeOf(effect);
  if (effect.room) return changeOf(core, effect);
  if (effect.event) return eventOf(effect);
  return effect.state ? stateOf(effect, word) : effect;
}

function stateOf({ retryInMs, welcome, repeat, ...rest }, word) {
  const isConnected = rest.state === 'connected';
  const isRepeated = rest.state === 'waiting' && ['network_changed', 'shown'].includes(word);
  assert.deepEqual([welcome?.type, repeat], [isConnected ? 'welcome' : undefined, isRepeated || undefined]);
  return { ...rest, in_ms: retryInMs, resumed: welcome?.resumed };
}

function eventOf({ details, ...rest }) {
  const { type, message, retry_after_ms: retryAfterMs } = rest.event;
  assert.deepEqual(details, type === 'error' ? { message, retryAfterMs, wasSent: true } : undefined);
  return rest;
}

function outcomeOf({ code, details, ...rest }) {
  if (!code) {
    assert.equal(details, undefined);
    return { ...rest, as: 'delivered' };
  }
  const { wasSent, message, retryAfterMs, ...others } = details;
  assert.deepEqual(others, {});
  if (code === 'expired') {
    assert.deepEqual([message, retryAfterMs], ['no answer in time', undefined]);
    return { ...rest, as: { expired: { sent: wasSent } } };
  }
  if (code === 'closed') {
    // The vectors do not distinguish closed requests by whether they were sent.
    assert.deepEqual([typeof wasSent, message, retryAfterMs], ['boolean', undefined, undefined]);
    return { ...rest, as: code };
  }
  assert.equal(wasSent, true);
  return { ...rest, as: { refused: code, message, retry_after_ms: retryAfterMs } };
}

/** Returns a change of a room, with the state that an effect leaves out. */
function changeOf(core, { type, event, ...rest }) {
  if (type === 'join') return { member_joined: event, ...rest };
  if (type === 'update') return { member_updated: event, ...rest };
  if (type === 'leave') {
    const { member, ...why } = event;
    return { member_left: member, ...rest, ...why };
  }
  if (type !== 'state') throw new Error(`unknown change of a room: ${type}`);
  const { state, ...why } = event;
  const { capacity, count, queuePlace } = core.room(rest.room) ?? {};
  const change = { room_state: state, ...rest, ...why };
  if (state === 'waiting') return { ...change, ahead: queuePlace.ahead, queue_length: queuePlace.length };
  return state === 'member' ? { ...change, capacity, count } : change;
}

function repeated({ times, ...once }, at, all) {
  if (!times) return [all[at]];
  const numbers = Array.from({ length: times }, (_, index) => index + 1);
  return numbers.map((number) => replace(once, (text) => numbered(text, number)));
}

const numbered = (text, number) => (text === '$i' ? number : text.replaceAll('$i', number));

function pick(text, value) {
  if (!text.startsWith('$each')) return text;
  return text === '$each' ? value : value[Number(text.slice('$each.'.length))];
}

/** Expands `{"fill":N}` to a text of N letters. */
function filled(value) {
  return change(value, (object) => (object.fill ? 'x'.repeat(object.fill) : object));
}

/** Replaces each text of a value. */
function replace(value, text) {
  return change(value, (object) => object, text);
}

function change(value, object, text = (unchanged) => unchanged) {
  const changed = (item) => change(item, object, text);
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) return value.map(changed);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([name, item]) => [name, changed(item)]);
  return object(Object.fromEntries(entries));
}
