-- ARGV per seat: client, session, accepted_at, number, node.
local named, list_after = {}, nil
for at = 11, #ARGV, 5 do
  refresh(ARGV[at], requester_at(at))
  table.insert(named, { ARGV[at], ARGV[at + 1] })
end
