-- ARGV: client.
local asked_of, list_after = { { ARGV[10] } }, nil
