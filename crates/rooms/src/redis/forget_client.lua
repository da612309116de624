-- Removes a client's entry, unless the client is elsewhere by now.
-- KEYS: PREFIX:client:ID. ARGV: node, session.
local known = redis.call('HMGET', KEYS[1], 'node', 'session')
if known[1] == ARGV[1] and known[2] == ARGV[2] then
  return redis.call('DEL', KEYS[1])
end
return 0
