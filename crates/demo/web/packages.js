/**
 * Where the modules of y-webrtc are: an import map with their hashes, from this list of all files.
 * `openssl dgst -sha256 -binary FILE | base64` prints a hash. The content security policy of the
 * page (`pages.rs`) has the hash of the import map, and a browser's console prints that.
 */
const FILES_BY_PACKAGE = {
  'lib0@0.2.120': {
    'array.js': 'sPTlJTc2LKhMZMnRdUnq/xf/W1BuwzHiWDq4jwfBr14=',
    'binary.js': 'xE7sMoUhOymFZLq86jgvkQoJ2GV/PsBa0/Fx8lUQzAU=',
    'broadcastchannel.js': 'y8zG2tlOHsM29hoHbWD5lF3gZOEQStXMNQl0PFk3/bg=',
    'buffer.js': '8YLV8629fns/UI9hRYbtimgM4HuhxRcaY2wy7FXiuXs=',
    'conditions.js': '3RdPpSAOL8T2Ml/aGnBDeTysrWmxwRqdINGK6XR2JDM=',
    'decoding.js': 'MNczp4zbCFtLkvCBcTwWvpq4WHuhUFu507wAKMKLRvc=',
    'dom.js': 'i/swNpPJdn1iVHpFnWekDgLgcHje0MuEN+xZ7DT56NQ=',
    'encoding.js': '5ceCKDUoRg4CpRdijX/fSPeTsseS0qeAJC2snfZSL6I=',
    'environment.js': 'MCLrv49Ms1vVKtp77+fLRYqXzVuwd6WRllMw/fgjXiw=',
    'error.js': '3XrFMN2Ug2v3mNyRcFMfcFDpK5smE+WIuQRJd67cyl4=',
    'eventloop.js': 'TXkMGfg2EJgRbsR9AzQwS2udRVmC5VZlPDsyT5Wstjk=',
    'function.js': 'TOkT51JYb2kcVrz37p+7H9pAl9sxbUjR/vVjlLagRps=',
    'iterator.js': 'hr9qRggIIJFVW5k1VwNZYOtk+YGq4P+4tpy1bIBPCsU=',
    'json.js': 'z7qXNObtgZSdPHJsj2T4qxK1jjgVouXigrKvo+GX+W4=',
    'logging.common.js': '6lLNv4d3mWIRlQ1luB7wQ14si6qWshPpbSZNq/REuhs=',
    'logging.js': 'G/gWMsYfqkDNpJhB52W2r7khYQ7TFeuWeWYL/a+plzA=',
    'map.js': 'QHR4DxCbN+Hg5+rk1y58Edo7BMSwKU4bVeO1EGfwnIk=',
    'math.js': 'i98WAaFxPc1lxs1YMPatCAyKwI04ZNtvHE5YsrcUGqs=',
    'metric.js': 'tPXQXU1NfWXdQO8yAIMIQv6m2KSHAYnc5qanXbUVekM=',
    'mutex.js': '79+mFlYJy29YZpozSSx0dhdBXOXs/AfHBy42d+eXBGI=',
    'number.js': 'RYtoXBWFKY8GCFxFr9yoEqwNsTbkzvumgDKFTLR/i2E=',
    'object.js': 'P7iyWfKEqpwZBCXjL1+ucMl8xqQsFRm8VRB9qlG/j6o=',
    'observable.js': 'SeywBxnqssMMGKOfpqyu2hX1ADyBcVrIK48gnlnf9OU=',
    'pair.js': 'zou1UVMhbL/fUXBDwmLErN1ZfHkAWt3Zx49dcmMpOBk=',
    'prng.js': 'HfuP2HdVs2NJsyFE9vaqzMG9ngc2dXdIbNIcyjPuyc0=',
    'prng/Xoroshiro128plus.js': 'iF2MNJdKovA0EbEf4rR9iYaGk3MkJy0esYIdF75viRY=',
    'prng/Xorshift32.js': 'g2s+ti8k1TwqmSP4R8zZBeH1SrrTEvmtCk1xXnnRNj8=',
    'promise.js': 'x4HntqI9MoVqqYjQplwZ/N/QAdSg4wucgvckKBAvGcA=',
    'random.js': 'VrwJvDME+NVePmGJeG8WCDEpMDr24YxfHCxBf/sOISE=',
    'schema.js': 'kHCGihRe7tTRs9rdR09KN1yaNHVSHXwZgG1eW0fO85U=',
    'set.js': '+Kpvp9M247Wz9AovKss88aUAgUgJpWA31vr1LuRtRpg=',
    'storage.js': 'SES69rRs1sUrdgEyAI/SGLcMyCibVx64tkC9XJaunog=',
    'string.js': 'ObykTqYHHriY6eWKc228Yh0eZncAXZO46tQUFrCojKI=',
    'symbol.js': 'MGguEyEZxHBG4dcJgvn3TCJrNDYO4+1wQTAsQdjM0AE=',
    'time.js': 'StAp7Y4vVldhjlNUaefX0qUsgilbGYNSpDuS3l3rol4=',
    'trait/equality.js': 'MvE/GgHa+vpyfEQU1NPkpgWK3emkVib3IZsELiFArC0=',
    'webcrypto.js': 'MaBcj/guSKoUValiImzgeSOhXkFYI5ITuoFc+udLN2Y=',
    'websocket.js': 'fTXBUy0q7Zec7i2eK8AD2/P2Fvw6XOZfbcH4tIQxOP4=',
  },
  'y-protocols@1.0.7': {
    'awareness.js': 'Kl9njfWZv/bGM0xi0IVNL3hRC1vyLVjtkS/nFk9YUv8=',
    'sync.js': 'cK05c8jwZmWvCxopZZEq/y6YW/xnoBwoT2+kyo6vS+g=',
  },
  'y-webrtc@10.3.0': {
    'src/crypto.js': '/WrwLFse4iRpC/Zmih6Po4cF/ox5B6EhuIhs8uEhYEQ=',
    'src/y-webrtc.js': '/Myybw7Japv5a8s0vmQfsGlz9eQCqrLm8rIaMjfo+Hk=',
  },
  'yjs@13.6.33': {
    'dist/yjs.mjs': 'pRTBgxAPw3XrRt+ctYrK8N6rv0FNJQiEEzYXmxy0UQc=',
  },
};

const urlOf = (file) => `https://unpkg.com/${file}`;
const imports = {
  'simple-peer/simplepeer.min.js': '/simple-peer.js',
  yjs: urlOf('yjs@13.6.33/dist/yjs.mjs'),
  'y-webrtc': urlOf('y-webrtc@10.3.0/src/y-webrtc.js'),
};
const integrity = {};
for (const [version, files] of Object.entries(FILES_BY_PACKAGE)) {
  const name = version.split('@')[0];
  for (const [file, hash] of Object.entries(files)) {
    const url = urlOf(`${version}/${file}`);
    imports[`${name}/${file.replace('.js', '')}`] = url;
    integrity[url] = `sha256-${hash}`;
  }
}
const map = Object.assign(document.createElement('script'), { type: 'importmap' });
map.textContent = JSON.stringify({ imports, integrity });
document.head.append(map);
