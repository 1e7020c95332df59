-- A brain without a model: runs what it is told as TypeScript and says what came of it.
local json = require("@axon/json")

defineCognet { name = "repl", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

local function shown(result: RunResult)
	local lines = table.clone(result.stdout)
	if not result.ok then
		table.insert(lines, `{result.error.code or result.error.kind}: {result.error.message}`)
	elseif result.value ~= nil then
		table.insert(lines, if type(result.value) == "string" then result.value else json.encode(result.value))
	end
	return table.concat(lines, "\n")
end

loop(function(wake)
	for _, stimulus in wake.stimuli do
		if stimulus.type == "stimulus:text" then
			local code: string = stimulus.data.content
			local result = kernel.run(code, { signal = wake.signal })
			kernel.output("cognet:output:text", { content = shown(result) })
		end
	end
	wake.stop()
end)
