/** Replacement of rejected tokens. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Tokens } from './tokens.js';

test('rejected token is replaced unless made for the attempt', () => {
  const tokens = new Tokens(true);
  const cases = [[1, true, true], [1, false, false], [2, false, true]];
  for (const [attempts, wasWelcome, mayHelp] of cases) {
    tokens.set(0, { token: 'jwt' });
    for (let number = 0; number < attempts; number += 1) tokens.use();
    assert.equal(tokens.reject(wasWelcome), mayHelp);
    assert.equal(tokens.isMissing(0), true);
  }
});
