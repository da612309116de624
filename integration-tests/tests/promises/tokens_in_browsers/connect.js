/** Connects two clients, whose tokens expire. `tokens_in_browsers.rs` loads it. */
async ({ address, careful, careless }) => {
  const { Client } = await import('/client.js');
  window.asked = {};
  const connect = (clientId, tokens, valid_ms) => {
    window.asked[clientId] = 0;
    const token = async () => ({ token: tokens[window.asked[clientId]++], valid_ms });
    const urls = [`ws://${address}/v1/connect`];
    const client = new Client({ urls, clientId, token, storage: null });
    client.connect();
    return client;
  };
  window.careful = connect('careful', careful, 2000);
  window.careless = connect('careless', careless);
}
