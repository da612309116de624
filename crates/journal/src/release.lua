-- Removes clients of a process from the registry. One that registered elsewhere since stays.
-- KEYS: registry, clients of the process. ARGV: process, then 'all' and a maximum, or 'these' and
-- the clients. Returns the number of clients.
local c = ARGV[2] == 'all' and redis.call('SPOP', KEYS[2], ARGV[3]) or {unpack(ARGV, 3)}
for _, u in ipairs(c) do
  redis.call('SREM', KEYS[2], u)
  if redis.call('HGET', KEYS[1], u) == ARGV[1] then redis.call('HDEL', KEYS[1], u) end
end
return #c
