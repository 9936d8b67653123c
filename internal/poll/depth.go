package poll

// Depth returns how many pages of a list to read so that these, and single reads of what lies deeper, are the fewest
// requests; 0 if reading all singly is. OnPage says how many records stand on each page. With probe a record is read singly
// beside the list.
func Depth(onPage []int, probe bool) int {
	deeper := 0
	for _, n := range onPage {
		deeper += n
	}
	best, fewest := 0, deeper
	if probe {
		fewest--
	}
	for i, n := range onPage {
		deeper -= n
		if requests := i + 1 + deeper; requests < fewest {
			best, fewest = i+1, requests
		}
	}
	return best
}
