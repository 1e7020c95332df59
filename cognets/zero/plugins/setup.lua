-- Hydrates the state before the first wake and leaves a checkpoint behind.
local state = require("../src/state")

return definePlugin(function(ctx)
	ctx.hooks.on("boot", function()
		state.sync()
		local checkpoint = kernel.store.get("checkpoint")
		kernel.emit("cognet:log:info", {
			value = { entries = #state.entries, seq = state.seq, checkpoint = checkpoint },
		})
	end)

	ctx.hooks.on("shutdown", function()
		kernel.store.set("checkpoint", { seq = state.seq, savedAt = os.time() * 1000 })
	end)
end)
