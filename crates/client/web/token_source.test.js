/** Results of the application's source of tokens. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { fetchToken } from './token_source.js';

const NOW = 1_800_000_000;
const jwt = (claims) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;

test('validity of a token is read from its claims', async (context) => {
  context.mock.method(Date, 'now', () => NOW * 1_000);
  const cases = [
    [{ exp: NOW + 60, iat: NOW - 5 }, 60_000],
    [{ exp: NOW + 60 }, 60_000],
    // This device's clock is an hour behind, or ahead.
    [{ exp: NOW + 3_660, iat: NOW + 3_600 }, 60_000],
    [{ exp: NOW - 3_540, iat: NOW - 3_600 }, 60_000],
    [{ exp: NOW - 5 }, undefined],
    [{}, undefined],
  ];
  for (const [claims, expected] of cases) {
    assert.equal((await fetchToken(() => jwt(claims))).validMs, expected, JSON.stringify(claims));
  }
});

test('source may return a text, an object, null or a promise', async () => {
  assert.deepEqual(await fetchToken('fixed'), { token: 'fixed' });
  assert.deepEqual(await fetchToken(() => ({ token: 'a', validMs: 7 })), { token: 'a', validMs: 7 });
  assert.deepEqual(await fetchToken(() => ({ token: 'a', validMs: Infinity })), { token: 'a', validMs: Infinity });
  assert.deepEqual(await fetchToken(async () => 'a'), { token: 'a', validMs: undefined });
  assert.equal(await fetchToken(async () => null), null);
  for (const wrong of [undefined, 7, {}, { token: 7 }]) {
    await assert.rejects(fetchToken(() => wrong), { name: 'TypeError', message: /^token: / });
  }
});

test('validity that is no positive number is named', async () => {
  for (const validMs of [0, -1, NaN, '60000', {}]) {
    const shown = typeof validMs === 'string' ? `"${validMs}"` : String(validMs);
    const named = { name: 'TypeError', message: `validMs: needs a positive number, not ${shown}` };
    await assert.rejects(fetchToken(() => ({ token: 'a', validMs })), named);
  }
});
