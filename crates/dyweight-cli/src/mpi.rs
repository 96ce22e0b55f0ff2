//! Processes started by `mpirun`.
//!
//! MPI counts in `int`: what is longer goes in pieces. Without an error handler of ours MPI ends the job when a process
//! is gone, so no call returns with half of an answer.

use ::mpi::Threading;
use ::mpi::datatype::PartitionMut;
use ::mpi::environment::{Universe, initialize_with_threading};
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};
use dyweight::Result;
use dyweight::comm::Comm;
use std::sync::{Mutex, MutexGuard};

/// The longest message.
const PIECE: usize = 1 << 28;
/// What is gathered at once, the length before the bytes; only what does not fit costs a second meeting of all
/// processes.
const BLOCK: usize = 4096;

/// The processes of `mpirun`.
pub struct Mpi {
    // Calls follow one another, whichever thread makes them: that much every MPI library allows.
    universe: Mutex<Universe>,
    rank: usize,
    size: usize,
}

impl Mpi {
    /// Joins the job; none if that was done before.
    pub fn join() -> Option<Self> {
        let (universe, _) = initialize_with_threading(Threading::Serialized)?;
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        Some(Self { universe: Mutex::new(universe), rank, size })
    }

    fn universe(&self) -> MutexGuard<'_, Universe> {
        self.universe.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The lengths of everyone's bytes and, if all are short, the bytes.
    fn meet(&self, world: &SimpleCommunicator, mine: &[u8]) -> (Vec<usize>, Option<Vec<Vec<u8>>>) {
        let mut block = [0u8; BLOCK];
        let (head, body) = block.split_at_mut(size_of::<u64>());
        head.copy_from_slice(&(mine.len() as u64).to_le_bytes());
        let short = mine.len().min(body.len());
        body[..short].copy_from_slice(&mine[..short]);
        let mut all = vec![0u8; BLOCK * self.size];
        world.all_gather_into(&block[..], &mut all[..]);
        let blocks = all.chunks(BLOCK).map(|block| block.split_at(size_of::<u64>()));
        let length = |head: &[u8]| head.try_into().map_or(0, u64::from_le_bytes) as usize;
        let lengths: Vec<usize> = blocks.clone().map(|(head, _)| length(head)).collect();
        let bytes = blocks.zip(&lengths).map(|((_, body), len)| Some(body.get(..*len)?.to_vec())).collect();
        (lengths, bytes)
    }

    /// The bytes of one process, of which everyone knows the length.
    fn bytes_of(&self, world: &SimpleCommunicator, rank: usize, mine: &[u8], len: usize) -> Vec<u8> {
        let root = world.process_at_rank(rank as i32);
        let mut bytes = if self.rank == rank { mine.to_vec() } else { vec![0; len] };
        bytes.chunks_mut(PIECE).for_each(|piece| root.broadcast_into(piece));
        bytes
    }
}

impl Comm for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather_bytes(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let universe = self.universe();
        let world = universe.world();
        let (lengths, short) = self.meet(&world, mine);
        if let Some(all) = short {
            return Ok((self.rank == 0).then_some(all));
        }
        if self.rank > 0 {
            mine.chunks(PIECE).for_each(|piece| world.process_at_rank(0).send(piece));
            return Ok(None);
        }
        let receive = |(rank, len): (usize, &usize)| {
            let mut bytes = vec![0; *len];
            for piece in bytes.chunks_mut(PIECE) {
                world.process_at_rank(rank as i32).receive_into(piece);
            }
            bytes
        };
        let others = lengths.iter().enumerate().skip(1).map(receive);
        Ok(Some(std::iter::once(mine.to_vec()).chain(others).collect()))
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let universe = self.universe();
        let world = universe.world();
        let (lengths, short) = self.meet(&world, mine);
        if let Some(all) = short {
            return Ok(all);
        }
        if lengths.iter().sum::<usize>() > PIECE {
            return Ok((0..self.size).map(|rank| self.bytes_of(&world, rank, mine, lengths[rank])).collect());
        }
        let counts: Vec<i32> = lengths.iter().map(|len| *len as i32).collect();
        let starts: Vec<i32> = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
        let mut all = vec![0u8; lengths.iter().sum()];
        world.all_gather_varcount_into(mine, &mut PartitionMut::new(&mut all[..], &counts[..], &starts[..]));
        let mut rest = &all[..];
        let part = |len: &usize| {
            let (part, behind) = rest.split_at(*len);
            rest = behind;
            part.to_vec()
        };
        Ok(lengths.iter().map(part).collect())
    }

    fn broadcast_bytes(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let universe = self.universe();
        let world = universe.world();
        let mut len = mine.len() as u64;
        world.process_at_rank(0).broadcast_into(&mut len);
        Ok(self.bytes_of(&world, 0, mine, len as usize))
    }

    fn barrier(&self) -> Result<()> {
        self.universe().world().barrier();
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        self.universe().world().abort(code)
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // Leaving MPI waits for the others, and they for a share that never comes.
        if std::thread::panicking() {
            self.abort(101);
        }
    }
}
