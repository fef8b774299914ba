-- The wrk script: sends random requests from a file that `load.ts` writes. `#########` in a request is replaced by
-- an increasing number, so that no two requests are equal.
local requests, number = {}, 0

local function split(text)
  local parts = {}
  for part in (text .. '#########'):gmatch('(.-)#########') do parts[#parts + 1] = part end
  return #parts > 1 and parts or text
end

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  for request in file:read('*a'):gmatch('[^%z]+') do requests[#requests + 1] = split(request) end
  file:close()
  number = tonumber(args[2])
  math.randomseed(number)
end

function request()
  local selected = requests[math.random(#requests)]
  if type(selected) == 'string' then return selected end
  number = number + 1
  return table.concat(selected, string.format('%09d', number))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"refused":%d,"broken":%d,"p50":%f,"p99":%f}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
