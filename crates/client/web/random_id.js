/** Returns a random client id or room name: at most 28 characters, also on pages without HTTPS. */
export function randomId() {
  const numbers = new Uint32Array(4);
  // Unlike `randomUUID` it needs no HTTPS. A platform without it leaves zeros, which are replaced.
  globalThis.crypto?.getRandomValues?.(numbers);
  let id = '';
  for (const number of numbers) id += (number || Math.floor(Math.random() * 4e9)).toString(36);
  return id;
}
