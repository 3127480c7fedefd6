package engine

import "time"

func (c *compiler) compileRetry(at string, n *node) {
	if n.Retry == nil {
		n.Retry = c.g.retry
		return
	}
	n.Retry = c.checkRetry(at+"/retry_policy", n.Retry)
	if n.OnCrash.guards() && n.Retry.MaxRetries > 0 {
		c.warn(at+"/retry_policy", "on_crash: retry says that it may be", "node %s is never retried: its on_crash is %s, so it must not blindly be repeated", n.name, n.OnCrash)
	}
}

// checkRetry gives the policy with its defaults filled in.
func (c *compiler) checkRetry(at string, p *Retry) *Retry {
	if p.MaxRetries < 0 {
		c.problem(at+"/max_retries", "", "max_retries is not negative")
	}
	if p.Jitter < 0 || p.Jitter > 1 {
		c.problem(at+"/jitter", "", "jitter is a share of the delay, between 0 and 1")
	}
	filled := p.filled()
	return &filled
}

// filled gives the policy with its defaults.
func (p Retry) filled() Retry {
	if p.InitialDelay <= 0 {
		p.InitialDelay = 100 * time.Millisecond
	}
	if p.Multiplier <= 0 {
		p.Multiplier = 2
	}
	if p.MaxDelay <= 0 {
		p.MaxDelay = 5 * time.Second
	}
	return p
}

func (c *compiler) compileTimeout(at string, n *node) {
	limit := n.Timeout
	if limit == nil {
		return
	}
	switch limit.On {
	case "", TimeoutFail:
	case TimeoutRetry, TimeoutSkip:
		if n.OnCrash.guards() {
			c.warn(at+"/on_timeout", "on_crash: retry says that it may be repeated", "on_timeout of node %s has no effect: its on_crash is %s, so work that was cut short is neither repeated nor skipped", n.name, n.OnCrash)
		}
	default:
		c.problem(at+"/on_timeout", Nearest(string(limit.On), []string{"fail", "retry", "skip"}), "unknown on_timeout %q; there are fail, retry, skip", limit.On)
	}
	if limit.Run < 0 || limit.Idle < 0 {
		c.problem(at, "", "a timeout of node %s is negative", n.name)
	}
	if limit.Run == 0 && limit.Idle == 0 {
		n.Timeout = nil
	}
}
