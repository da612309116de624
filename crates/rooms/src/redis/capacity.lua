-- ARGV: capacity (0: no limit; empty: none of its own).
own_capacity = tonumber(ARGV[11])
if own_capacity then
  redis.call('HSET', meta, 'capacity', text(own_capacity))
else
  redis.call('HDEL', meta, 'capacity')
end
local named, list_after = {}, nil
