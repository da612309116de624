-- ARGV per seat: client, session, born, number, node.
local asked_of, list_after = {}, nil
for at = 10, #ARGV, 5 do
  refresh(ARGV[at], who_at(at))
  table.insert(asked_of, { ARGV[at], ARGV[at + 1] })
end
