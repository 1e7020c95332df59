---@meta
-- The globals of a cognet for LuaLS (lua-language-server). luau-lsp reads kernel.d.luau instead. ABI "9".

---@alias Json any

---@class EntryTime
---@field ms number
---@field seq number

---@class Entry
---@field id string
---@field type string
---@field time EntryTime
---@field data table<string, Json>

---@class Signal
---@field aborted boolean
---@field reason string?

---@class Wake
---@field stimuli Entry[] The stimulus:* entries since the last wake, in order.
---@field signal Signal
---@field stop fun() Ends the wake after this tick.

---@class Message
---@field role "system"|"user"|"assistant"
---@field content string

---@class StreamRequest
---@field messages Message[]
---@field format ("air"|"fenced"|"raw")? How the model's text is decoded; "air" unless given.
---@field model string?
---@field maxTokens number?
---@field temperature number?
---@field signal Signal?

---@class Usage
---@field input number?
---@field output number?
---@field cachedInput number?
---@field reasoning number?

---@class EngineEvent
---@field type "engine:text:delta"|"engine:text"|"engine:typescript"|"engine:output:error"|"engine:stop"|"engine:done"
---@field content string?
---@field code string?
---@field message string?
---@field excerpt string?
---@field text string?
---@field stopReason string?
---@field model string?
---@field provider string?
---@field usage Usage?
---@field durationMs number?
---@field firstTokenMs number?

---@class RunOptions
---@field signal Signal?

---@class RunError
---@field kind "timeout"|"interrupt"|"exception"
---@field message string
---@field code string?

---@class RunResult
---@field ok boolean
---@field value Json?
---@field stdout string[]
---@field error RunError?

---@class ScopeMember
---@field name string
---@field declaration string
---@field jsdoc string?

---@class ScopeModule
---@field name string
---@field description string?
---@field flat boolean?
---@field members ScopeMember[]
---@field ambientTypes string[]?

---@class Scope
---@field modules ScopeModule[]
---@field dts string

---@class Query
---@field with string[]
---@field without string[]?
---@field where (fun(entity: number, ...: any): boolean)?

---@class Mode
---@field kind "invocation"|"continuous"

---@class Config
---@field name string
---@field version string
---@field abi string
---@field mode Mode?
---@field maxTicksPerWake number?
---@field wakeOn string[]?

---@class Hooks
---@field on fun(name: "boot"|"wake"|"tick"|"shutdown", fn: fun(argument: any))

---@class PluginContext
---@field hooks Hooks

---@class SessionStore
---@field get fun(query?: { after: number? }): Entry[] The entries with seq > after, in order.

---@class Store
---@field session SessionStore
---@field get fun(key: string): Json?
---@field set fun(key: string, value: Json)

---@class Kernel
---@field output fun(type: string, data: table<string, Json>) Says something. Returns once the entry is in the log.
---@field stream fun(request: StreamRequest): fun(): EngineEvent? One inference: for event in kernel.stream { messages = ... } do
---@field run (fun(code: string, opts?: RunOptions): RunResult)|(fun(codes: string[], opts?: RunOptions): RunResult[]) One TypeScript block, or a list of blocks at once.
---@field scope fun(): Scope What the capsule can execute now.
---@field base fun(): string The user's identity text, "" when there is none.
---@field emit fun(type: string, data?: table<string, Json>) Telemetry, cognet:* only.
---@field store Store

---@class World
---@field spawn fun(components?: table<string, any>): number
---@field despawn fun(entity: number)
---@field set fun(entity: number, name: string, value: any)
---@field get fun(entity: number, name: string): any
---@field has fun(entity: number, name: string): boolean
---@field remove fun(entity: number, name: string)
---@field query fun(query: Query): fun(): number?, ...
---@field watch fun(name: string, fn: fun(entity: number, value: any, before: any)): fun()

---@type Kernel
kernel = {}

---@type World
world = {}

---@param body fun(wake: Wake)
function loop(body) end

---@generic R
---@param name string
---@param fn fun(): R
---@return R
function phase(name, fn) end

---@generic R
---@param name string
---@param fn fun(): R
---@return R
function system(name, fn) end

---@param config Config
---@return Config
function defineCognet(config) end

---@param setup fun(ctx: PluginContext)
function definePlugin(setup) end
