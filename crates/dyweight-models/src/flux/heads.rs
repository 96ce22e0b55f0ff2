//! Queries, keys and values of tokens, and the attention that joins them.
//!
//! ```text
//! q = R·rms(W_q·u),  k = R·rms(W_k·u),  v = W_v·u
//!                                                           rms over each head, R the rotation by the token's position
//! ```
//!
//! Only what the projections give is kept for the way back: norm and rotation are made again.

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Attention, Bias, Linear, LogSums, RmsNorm, Rotary, concat_tokens, split_tokens};

/// ε of the norms of queries and keys.
const EPS: f32 = 1e-6;

/// Projections of one stream's tokens.
pub(super) struct Heads {
    q: Linear,
    k: Linear,
    v: Linear,
    norm_q: RmsNorm,
    norm_k: RmsNorm,
}

/// What the projections gave.
#[derive(Clone)]
pub(super) struct Projected {
    q: Act,
    k: Act,
    v: Act,
}

/// What attention gave, joined over the streams.
#[derive(Clone)]
pub(super) struct Attended {
    pub(super) gathered: Act,
    sums: LogSums,
}

impl Heads {
    /// Names of the three projections and of the norms of queries and keys.
    pub(super) fn new(scope: &Scope<'_>, names: [&str; 5], width: usize, head: usize) -> Result<Self> {
        let [q, k, v, norm_q, norm_k] = names;
        Ok(Self {
            q: scope.linear(q, width, width)?,
            k: scope.linear(k, width, width)?,
            v: scope.linear(v, width, width)?,
            norm_q: scope.rms_norm(norm_q, head, EPS)?,
            norm_k: scope.rms_norm(norm_k, head, EPS)?,
        })
    }

    pub(super) fn project(&self, u: &Act) -> Projected {
        Projected { q: self.q.forward(u), k: self.k.forward(u), v: self.v.forward(u) }
    }

    /// The gradient of the projected tokens, from those of normalised queries and keys, and values.
    pub(super) fn backward(&self, projected: &Projected, [gq, gk, gv]: [&Act; 3]) -> Act {
        let to_u = self.q.backward(&self.norm_q.backward(&projected.q, gq));
        let to_u = self.k.backward_residual(&self.norm_k.backward(&projected.k, gk), Some(&to_u), 1.0);
        self.v.backward_residual(gv, Some(&to_u), 1.0)
    }
}

/// Normalised and rotated queries and keys, and values, of all streams one after the other.
fn align(streams: &[(&Heads, &Projected)], rotary: &Rotary) -> [Act; 3] {
    let normed = |pick: fn(&(&Heads, &Projected)) -> Act| -> Act {
        let parts: Vec<Act> = streams.iter().map(pick).collect();
        rotary.forward(&joined(parts))
    };
    let q = normed(|(heads, p)| heads.norm_q.forward(&p.q));
    let k = normed(|(heads, p)| heads.norm_k.forward(&p.k));
    let v = match streams {
        [(_, one)] => one.v.clone(),
        all => concat_tokens(&all.iter().map(|(_, p)| &p.v).collect::<Vec<_>>()),
    };
    [q, k, v]
}

fn joined(mut parts: Vec<Act>) -> Act {
    match parts.len() {
        1 => parts.remove(0),
        _ => concat_tokens(&parts.iter().collect::<Vec<_>>()),
    }
}

/// What the tokens of all streams gather from each other.
pub(super) fn attend(core: &Attention, streams: &[(&Heads, &Projected)], rotary: &Rotary) -> Attended {
    let [q, k, v] = align(streams, rotary);
    let (gathered, sums) = core.forward(&q, &k, &v, Bias::NONE);
    Attended { gathered, sums }
}

/// Each stream's gradients of normalised queries and keys, and values, from that of what all gathered.
pub(super) fn attend_backward(
    core: &Attention,
    streams: &[(&Heads, &Projected)],
    rotary: &Rotary,
    attended: &Attended,
    to_gathered: &Act,
) -> Vec<[Act; 3]> {
    let [q, k, v] = align(streams, rotary);
    let [gq, gk, gv] = core.backward([&q, &k, &v], Bias::NONE, &attended.gathered, &attended.sums, to_gathered);
    drop((q, k, v));
    let turned = [rotary.backward(&gq), rotary.backward(&gk), gv];
    if streams.len() == 1 {
        return vec![turned];
    }
    let counts: Vec<usize> = streams.iter().map(|(_, p)| p.q.shape().pixels()).collect();
    let [mut q, mut k, mut v] = turned.map(|g| split_tokens(&g, &counts).into_iter());
    let next = |_| Some([q.next()?, k.next()?, v.next()?]);
    counts.iter().filter_map(next).collect()
}
