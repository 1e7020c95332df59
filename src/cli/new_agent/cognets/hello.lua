-- A brain without a model. Change it, then run `axon run "hello"` again.
defineCognet { name = "hello", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

loop(function(wake)
	for _, stimulus in wake.stimuli do
		-- TypeScript runs in the capsule and may do what axon.toml allows.
		local files = kernel.run [[ (await fs.list(".")).map(entry => entry.name).join(", ") ]]
		local seen = if files.ok then `I see {files.value}.` else `I could not look: {files.error.message}`
		kernel.output("cognet:output:text", { content = `You said "{stimulus.data.content}". {seen}` })
	end
	wake.stop()
end)
