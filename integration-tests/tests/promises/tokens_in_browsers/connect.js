/** Connects two clients, whose tokens expire. `tokens_in_browsers.rs` loads it. */
async ({ address, careful, careless }) => {
  const { Client } = await import('/signaling-mesh.mjs');
  window.asked = {};
  const connect = (clientId, tokens, validMs) => {
    window.asked[clientId] = 0;
    const token = async () => ({ token: tokens[window.asked[clientId]++], validMs });
    const client = new Client(`ws://${address}`, { clientId, token, storage: null });
    client.connect();
    return client;
  };
  window.careful = connect('careful', careful, 2000);
  window.careless = connect('careless', careless, Infinity);
}
