package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// network leads to the box through one fault-injecting proxy for the API and one for storage. The client keeps the box's
// addresses, so that neither the token's origin nor signed addresses change; only the dialer knows of the proxies.
type network struct {
	server  *toxiproxy.ApiServer
	targets []string          // the box's addresses
	behind  map[string]string // what stands before a target, where something does
	meter   meter

	mu     sync.Mutex
	rng    *rand.Rand
	fronts map[string]*toxiproxy.Proxy // by target: where new connections go
	old    []*toxiproxy.Proxy          // where connections of earlier stretches may still be
	toxics map[string]int              // added so far, by kind
}

func newNetwork(seed uint64, behind map[string]string, urls ...string) (*network, error) {
	n := &network{
		behind: behind,
		server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		fronts: map[string]*toxiproxy.Proxy{}, toxics: map[string]int{},
		rng: rand.New(rand.NewPCG(seed, 0)),
	}
	for _, address := range urls {
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		n.targets = append(n.targets, u.Host)
		if err := n.open(u.Host, nil); err != nil {
			n.close()
			return nil, err
		}
	}
	return n, nil
}

// change turns the weather: new connections of one target meet other faults from now on, connections that are open keep
// theirs, and the oldest of them are cut. A proxy gets its faults before its first connection: one that is given to
// connections in use can block for ever on one that has just failed.
func (n *network) change() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	target := n.targets[n.rng.IntN(len(n.targets))]
	toxics := forecast(n.rng)
	n.old = append(n.old, n.fronts[target])
	for len(n.old) > 3 {
		n.old[0].Stop()
		n.old = n.old[1:]
	}
	return n.open(target, toxics)
}

// open starts a proxy to the target.
func (n *network) open(target string, toxics []toxic) error {
	front := toxiproxy.NewProxy(n.server, target, "127.0.0.1:0", cmp.Or(n.behind[target], target))
	for _, t := range toxics {
		encoded, err := t.encoded()
		if err != nil {
			return err
		}
		if _, err := front.Toxics.AddToxicJson(encoded); err != nil {
			return fmt.Errorf("toxic %s: %w", t.Type, err)
		}
		n.toxics[t.Type]++
	}
	if err := front.Start(); err != nil {
		return err
	}
	n.fronts[target] = front
	return nil
}

// dial connects to the target through its proxy of the moment.
func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	front := n.fronts[address]
	n.mu.Unlock()
	if front == nil {
		return nil, fmt.Errorf("no way to %s but through a proxy", address)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, protocol, front.Listen)
	if err != nil {
		return nil, err
	}
	return n.meter.follow(conn), nil
}

// close ends every proxy and connection.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, front := range n.fronts {
		front.Stop()
	}
	for _, front := range n.old {
		front.Stop()
	}
	n.fronts, n.old = nil, nil
}
