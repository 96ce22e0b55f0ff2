//! A job of several processes whose processes are threads: what is carried between them can be tested without MPI.

use dyweight_core::Result;
use dyweight_sample::comm::Comm;
use std::sync::{Arc, Barrier, Mutex};

/// One of several threads that stand for processes.
struct Thread {
    rank: usize,
    places: Arc<Vec<Mutex<Vec<u8>>>>,
    meeting: Arc<Barrier>,
}

impl Comm for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.places.len()
    }

    fn gather_bytes(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let all = self.all_gather_bytes(mine)?;
        Ok((self.rank == 0).then_some(all))
    }

    fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        *self.places[self.rank].lock().unwrap() = mine.to_vec();
        self.meeting.wait();
        let all = self.places.iter().map(|place| place.lock().unwrap().clone()).collect();
        self.meeting.wait();
        Ok(all)
    }

    fn broadcast_bytes(&self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(self.all_gather_bytes(mine)?.swap_remove(0))
    }

    fn barrier(&self) -> Result<()> {
        self.meeting.wait();
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        // The others wait for ever: a test that comes here has failed.
        std::process::exit(code)
    }
}

/// What each of `size` processes, of so many threads each, makes of `work`, in the order of ranks.
pub fn together<T: Send>(size: usize, threads: usize, work: impl Fn(&Arc<dyn Comm>) -> T + Sync) -> Vec<T> {
    let places: Arc<Vec<_>> = Arc::new((0..size).map(|_| Mutex::default()).collect());
    let meeting = Arc::new(Barrier::new(size));
    let one = |rank: usize| {
        let comm: Arc<dyn Comm> = Arc::new(Thread { rank, places: places.clone(), meeting: meeting.clone() });
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| work(&comm))
    };
    std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = (0..size).map(|rank| scope.spawn(move || one(rank))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}
