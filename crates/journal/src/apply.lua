-- Applies a write of a room's owner, unless a later owner writes (0) or a write is lost (-1).
-- KEYS: meta of the room. ARGV: epoch, number, number before it or '', commands.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'number')
if m[1] and m[1] > ARGV[1] then return 0 end
if ARGV[3] ~= '' and (m[1] ~= ARGV[1] or m[2] ~= ARGV[3]) then return -1 end
for _, c in ipairs(cmsgpack.unpack(ARGV[4])) do redis.call(unpack(c)) end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'number', ARGV[2])
return 1
