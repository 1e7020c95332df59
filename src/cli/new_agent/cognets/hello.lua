-- A brain without a model. Change it, then run `axon run "hello"` again.
defineCognet { name = "hello", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

loop(function(wake)
	for _, stimulus in wake.stimuli do
		-- TypeScript runs in the capsule and may do what axon.toml allows; `folder` is tools/folder.ts.
		local look = kernel.run [[ const { names, bytes } = await folder.overview(); `${names.join(", ")}: ${bytes} bytes` ]]
		local seen = if look.ok then `I see {look.value}.` else `I could not look: {look.error.message}`
		kernel.output("cognet:output:text", { content = `You said "{stimulus.data.content}". {seen}` })
	end
	wake.stop()
end)
