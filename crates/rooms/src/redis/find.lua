-- client
local asked_of, list_after = { { ARGV[9] } }, nil
