expire()
admit()
if seals and is_full() and not known_meta.sealed then
  redis.call('HSET', meta, 'sealed', 1)
end
for _, it in ipairs(named) do
  table.insert(statuses, status_of(it[1], it[2]))
end
if list_after and (list_after ~= '' or #statuses == 0 or statuses[1][1] == 0) then
  page(list_after)
end

local new_version = (version or now) + #changes
if #changes > 0 then
  version = new_version
end
if version and text(version) ~= known_meta.version then
  redis.call('HSET', meta, 'version', text(version))
end
if version then
  redis.call('HSET', meta, 'touched', text(now))
end
if version and incarnation == 0 then
  incarnation = now
  redis.call('HSET', meta, 'run', run, 'incarnation', text(incarnation), 'settled', text(settled_at))
end
if text(last_place) ~= (known_meta.place or '0') then
  redis.call('HSET', meta, 'place', text(last_place))
end
for node, by in pairs(by_node) do
  if by ~= 0 and redis.call('HINCRBY', meta, 'node:' .. node, by) <= 0 then
    redis.call('HDEL', meta, 'node:' .. node)
  end
end
local nodes = {}
if queue_moved == 1 or #changes > 0 then
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    if string.sub(field, 1, 5) == 'node:' then
      table.insert(nodes, string.sub(field, 6))
    end
  end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, own_capacity and idle * 100 or idle)
end
local numbers = {
  new_version, own_capacity or default_capacity, count, redis.call('ZCARD', waiting), queue_moved,
  more, now < settled_at and 1 or 0, incarnation,
}
return { numbers, statuses, changes, list, nodes }
