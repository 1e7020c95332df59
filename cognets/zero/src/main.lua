-- zero, the reference brain. Each tick it folds the log, shows it to a model, says what the model says and runs what the
-- model writes. Stimuli and results are not looked at: both come back through the log.
local air = require("@axon/air")
local uuid = require("@axon/uuid")
local state = require("./state")

local function say(content, chunk)
	kernel.output("cognet:output:text", { content = content, chunk = chunk })
end

-- Speaks while the model does. Returns the code it wrote, and whether it is done.
local function invoke(messages: { Message }, signal: Signal)
	local blocks: { string }, done = {}, false
	local speaking: string? = nil -- the id of the block that is being spoken
	local on = {}

	on["engine:text:delta"] = function(event)
		speaking = speaking or uuid.v7()
		say(event.content, { of = speaking })
	end
	on["engine:text"] = function(event)
		if speaking then
			say("", { of = speaking, final = true })
			speaking = nil
		else
			say(event.content)
		end
	end
	on["engine:typescript"] = function(event)
		table.insert(blocks, event.content)
	end
	on["engine:output:error"] = function(event)
		say(`[format] {event.code}: {event.message}`)
	end
	on["engine:stop"] = function()
		done = true
	end

	for event in kernel.stream { messages = messages, format = "air", signal = signal } do
		local react = on[event.type]
		if react then
			react(event)
		end
	end
	return blocks, done
end

loop(function(wake)
	phase("sync", state.sync)

	local messages = phase("render", function()
		return air.render { base = kernel.base(), scope = kernel.scope(), history = state.entries }
	end)

	local blocks, done = phase("invoke", function()
		return invoke(messages, wake.signal)
	end)

	phase("act", function()
		if #blocks > 0 then
			kernel.run(blocks, { signal = wake.signal })
		end
	end)

	if done and #blocks == 0 then
		wake.stop()
	end
end)
