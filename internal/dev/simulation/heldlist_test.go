package simulation

// held are mistakes that tests of their own have to notice, since nothing in worlds comes near to them, or too seldom: two steps
// in the wrong order, something shared that was to be copied, what is not synced, locked, reset or passed on.
var held = []defect{
	// One call.
	{name: "a header that is added to grows into the next attempt's", file: "internal/exchange/attempt.go", old: "header[key] = slices.Clip(list)", with: "header[key] = list", held: "internal/exchange TestHeadersAreThoseOfOneAttempt"},
	{name: "a header that is added to runs over its neighbour", file: "internal/exchange/attempt.go", old: "values[i : i+1 : i+1]", with: "values[i : i+1]", held: "internal/exchange TestHeader"},
	{name: "waiting for the limiter counts as sending", file: "internal/exchange/attempt.go", old: "\ta.Started = time.Now()\n", with: "", held: "internal/exchange TestAttemptsAreTold"},
	{name: "a response is appended to the one before", file: "internal/exchange/memory.go", old: "\tm.buffer.Reset()\n\twatch.Bound", with: "\twatch.Bound", held: ". TestRetryAfterIsHeeded"},
	{name: "a released response can still be read", file: "internal/exchange/exchange.go", old: "\tif r.Last != nil {\n\t\tr.Last.Body = nil\n\t}\n", with: "", held: "internal/exchange TestNoAttemptIsHeldByItsTimer"},
	{name: "a body that BeforeCommit refuses counts as whole", file: "internal/exchange/followed.go", old: "\t\tif err := b.state.commit(b.quit); err != nil {\n\t\t\treturn 0, err\n\t\t}\n\t\tb.whole.Store(true)", with: "\t\tb.whole.Store(true)\n\t\tif err := b.state.commit(b.quit); err != nil {\n\t\t\treturn 0, err\n\t\t}", held: ". TestBeforeCommitWhileTheContextEnds"},
	{name: "BeforeCommit's time counts as a stall", file: "internal/exchange/streamed.go", old: "\ts.Watchdog.Pause()\n\tbegan", with: "\tbegan", held: ". TestBeforeCommitIsFollowedByTheUsualPatience"},
	{name: "after a skipped connection none counts", file: "internal/exchange/sendstate.go", old: "\ts.traced.Store(true)\n\ts.ignored.Store(counts)\n", with: "\ts.traced.Store(true)\n", held: "internal/exchange TestACreateTakesNoConnectionThatWasIdle"},
	{name: "a skipped connection stays open", file: "internal/exchange/sendstate.go", old: "\t\ts.ignore(skipped)\n\t\t_ = info.Conn.Close()\n", with: "\t\ts.ignore(skipped)\n", held: "internal/exchange TestACreateTakesNoConnectionThatWasIdle"},
	{name: "a foreign tracestate goes with our trace", file: "internal/exchange/caller.go", old: "\tdelete(h, \"Tracestate\") // the caller's own belongs to another parent\n", with: "", held: ". TestOnlyTraceContextIsSent"},
	{name: "two readers have one body", file: "internal/exchange/body.go", old: "\tif earlier := s.body.Swap(b); earlier != nil {\n\t\tearlier.stop()\n\t}", with: "\ts.body.Store(b)", held: "internal/exchange TestEarlierBodyGivesNoMore"},
	{name: "net/http repeats what must not be sent twice", file: "internal/exchange/body.go", old: "\tif !s.Once {\n\t\tout.GetBody", with: "\tif true {\n\t\tout.GetBody", held: "internal/exchange TestSendGivesOnlyRepeatableBodiesTwice"},

	// Downloads.
	{name: "a part is described before it is on the disk", file: "internal/download/part.go", old: "\tif err := p.file.Sync(); err != nil {\n\t\treturn err\n\t}\n\treturn p.describe()", with: "\tif err := p.describe(); err != nil {\n\t\treturn err\n\t}\n\treturn p.file.Sync()", held: "internal/download TestAPartIsDescribedOnceItIsOnTheDisk"},
	{name: "a part is emptied before it is forgotten", file: "internal/download/part.go", old: "\tif err := p.describe(); err != nil {\n\t\treturn err\n\t}\n\tif err := p.file.Truncate(0); err != nil {\n\t\treturn err\n\t}\n", with: "\tif err := p.file.Truncate(0); err != nil {\n\t\treturn err\n\t}\n\tif err := p.describe(); err != nil {\n\t\treturn err\n\t}\n", held: "internal/download TestAPartIsForgottenBeforeItIsEmptied"},
	{name: "another recording's part is gone on with", file: "internal/download/part.go", old: "left.Of != p.info.Of || ", with: "", held: ". TestWhatAPartMayBeContinuedFrom"},
	{name: "what lies behind a part's end stays", file: "internal/download/part.go", old: "\tif err := p.file.Truncate(p.size); err != nil {\n\t\treturn err\n\t}\n\tp.head", with: "\tp.head", held: ". TestWhatAPartMayBeContinuedFrom"},
	{name: "a part that is gone on with is written from its start", file: "internal/download/part.go", old: "_, err = p.file.Seek(p.size, io.SeekStart)", with: "_, err = p.file.Seek(0, io.SeekStart)", held: ". TestAPartIsContinuedWithoutRanges"},
	{name: "a finished part's lock goes before its name", file: "internal/download/part.go", old: "\tif err == nil {\n\t\terr = os.Rename(p.partPath(), p.path)\n\t}", with: "\t_ = filelock.Close(p.companion)\n\tif err == nil {\n\t\terr = os.Rename(p.partPath(), p.path)\n\t}", held: ". TestDownloadToALink"},
	{name: "a recording is judged by the beginning of another", file: "internal/download/download.go", old: "d.received, d.head, d.recording = 0, nil, recording{total: -1}", with: "d.received, d.recording = 0, recording{total: -1}", held: "internal/download TestARestartForgetsTheBeginning"},
	{name: "each failure counts as the first", file: "internal/download/download.go", old: "\td.counted = d.furthest\n\tfailed", with: "\tfailed", held: "internal/download TestNextCountsAnewWithEveryNewByte"},
	{name: "a refused address is used again", file: "internal/download/download.go", old: "d.renewed, d.address = true, Address{}", with: "d.renewed = true", held: "internal/download TestNextAsksForOneFreshAddress"},
	{name: "pieces of two downloads share a buffer", file: "internal/download/storage.go", old: "\tdefer pieces.Put(piece)\n", with: "\tpieces.Put(piece)\n", held: ". TestDownloadGoesOnAfterACutAtChosenBytes"},
	{name: "a slow writer is a stalled storage", file: "internal/download/storage.go", old: "\t\twatch.Pause() // a slow writer is not a stalled storage\n", with: "", held: "internal/download TestStorageIsNotBlamedForTheTimeOfOthers"},
	{name: "a slow service is a stalled storage", file: "internal/download/storage.go", old: "\t\twatch.Pause() // a slow service is not a stalled storage\n", with: "", held: "internal/download TestStorageIsNotBlamedForTheTimeOfOthers"},
	{name: "the beginning of a recording lies in the shared buffer", file: "internal/download/storage.go", old: "d.head = append(d.head, p[:min(missing, len(p))]...)", with: "if d.head == nil {\n\t\t\td.head = p[:min(missing, len(p))]\n\t\t} else {\n\t\t\td.head = append(d.head, p[:min(missing, len(p))]...)\n\t\t}", held: "internal/download TestWhatIsNoTextIsNotHeldBack"},
	{name: "a size is asked for after the download", file: "internal/download/size.go", old: "\t\td.asked.cancel()\n\t\td.asked.work.Wait()", with: "\t\td.asked.work.Wait()", held: "internal/download TestTheSizeIsAskedForWhileTheRecordingFlows"},
	{name: "a question outlives its download", file: "internal/download/size.go", old: "\t\td.asked.cancel()\n\t\td.asked.work.Wait()", with: "\t\td.asked.cancel()", held: "internal/download TestTheSizeIsAskedForWhileTheRecordingFlows"},
	{name: "a rewound writer has still written", file: "internal/download/writer.go", old: "\tt.written = 0\n\t_, err = t.rewinder", with: "\t_, err = t.rewinder", held: "internal/download TestARewindDropsNothingButTheRecording"},
}
