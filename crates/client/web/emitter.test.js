/** Listeners of events. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Emitter, emit } from './emitter.js';

test('listeners are called in order until they are removed', () => {
  const emitter = new Emitter();
  const seen = [];
  const remove = emitter.on('a', (event) => seen.push(`one ${event}`));
  const two = (event) => seen.push(`two ${event}`);
  emitter.on('a', two);
  emitter.on('a', two);
  emitter.once('a', (event) => seen.push(`once ${event}`));
  emit(emitter, 'a', 1);
  remove();
  emit(emitter, 'a', 2);
  emitter.off('a', two);
  emit(emitter, 'a', 3);
  emit(emitter, 'other', 4);
  assert.deepEqual(seen, ['one 1', 'two 1', 'once 1', 'two 2']);
  assert.throws(() => emitter.on('a', undefined), { name: 'TypeError', message: /^listener: / });
});

test('listener that throws is uncaught and others are called', (context) => {
  const tasks = [];
  context.mock.method(globalThis, 'queueMicrotask', (task) => tasks.push(task));
  const emitter = new Emitter();
  const seen = [];
  emitter.on('a', () => {
    throw new Error('of the application');
  });
  emitter.on('a', () => seen.push('two'));
  emit(emitter, 'a');
  assert.deepEqual([seen, tasks.length], [['two'], 1]);
  assert.throws(tasks[0], /of the application/);
});
