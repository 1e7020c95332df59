-- The resident model: every entry of the session, in order. It is folded from the log, so it can be lost at any time.
local state = { entries = {}, seq = -1 }

function state.sync()
	for _, entry in kernel.store.session.get { after = state.seq } do
		table.insert(state.entries, entry)
		state.seq = entry.time.seq
	end
end

return state
